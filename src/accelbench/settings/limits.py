"""The ranges of the settings, checked once, where a user's words come in."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from accelbench.devices.cpu import usable_cores
from accelbench.errors import UserError
from accelbench.schema.vocab import RANDOM, RANDOM_IMAGE_PIPELINES, Augment, Pipeline

if TYPE_CHECKING:  # the schema uses this module
    from accelbench.settings.config import RunConfig


def check(run: "RunConfig") -> None:
    """Raises a UserError that names the flag and its range where a setting is out of it."""
    fitting = (
        RANDOM_IMAGE_PIPELINES if run.data.name == RANDOM else [p for p in Pipeline if p not in RANDOM_IMAGE_PIPELINES]
    )
    if run.data.pipeline not in fitting:
        raise UserError(
            f"data.pipeline={run.data.pipeline}: not for data={run.data.name}. Choose from: {', '.join(fitting)}."
        )
    if run.data.name == RANDOM and run.data.augment != Augment.none:
        raise UserError(f"data.augment={run.data.augment}: random images are not varied. Choose from: none.")
    for flag, number in _floats(asdict(run)):
        if not math.isfinite(number):
            raise UserError(f"{flag}={number}: should be a finite number")
    at_least: Mapping[str, tuple[float | None, float]] = {
        "batch_size": (run.batch_size, 1),
        "devices": (run.devices, 1),
        "engine.steps_per_execution": (run.engine.steps_per_execution, 1),
        "epochs": (run.epochs, 1),
        "warmup": (run.warmup, 1),
        "steps": (run.steps, 1),
        "threads": (run.threads, 1),
        "data.num_workers": (run.data.num_workers, 1),
        "model.num_classes": (run.model.num_classes, 1),
        "model.input_shape": (min(run.model.input_shape, default=0), 1),
        "seed": (run.seed, 0),
        "repeat": (run.repeat, 0),
        "repeats": (run.repeats, 1),
        "window.warmup_steps": (run.window.warmup_steps, 1),
        "window.warmup_s": (run.window.warmup_s, 0),
        "window.latency_s": (run.window.latency_s, 0),
        "window.latency_steps": (run.window.latency_steps, 1),
        "breakdown_s": (run.breakdown_s, 0),
    }
    for flag, (value, least) in at_least.items():
        if value is not None and value < least:
            raise UserError(f"{flag}={value}: should be at least {least}")
    at_most: Mapping[str, tuple[int | None, int]] = {
        "seed": (run.seed, 2**32 - 1),
        "threads": (run.threads, usable_cores()),
    }
    for flag, (count, most) in at_most.items():
        if count is not None and count > most:
            raise UserError(f"{flag}={count}: should be at most {most}")
    above_zero = {
        "timeout_s": run.timeout_s,
        "window.measure_s": run.window.measure_s,
        "window.block_s": run.window.block_s,
        "window.width": run.window.width,
        "model.learning_rate": run.model.learning_rate,
    }
    for flag, value in above_zero.items():
        if value <= 0:
            raise UserError(f"{flag}={value:g}: should be above 0")


def _floats(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Every setting that is a float, under its dotted name."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _floats(value, f"{prefix}{name}.")
        elif isinstance(value, float):
            yield prefix + name, value
