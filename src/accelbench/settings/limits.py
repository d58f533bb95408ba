"""The ranges of the settings, checked once, when a configuration has been composed."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from accelbench.devices.cpu import usable_cores
from accelbench.errors import UserError
from accelbench.schema.ranges import MAX_COUNT
from accelbench.schema.vocab import RANDOM, RANDOM_IMAGE_PIPELINES, Augment, Pipeline
from accelbench.settings.config import DataConfig, RunConfig

LEAST = {
    "batch_size": 1,
    "devices": 1,
    "engine.steps_per_execution": 1,
    "epochs": 1,
    "warmup": 1,
    "steps": 1,
    "threads": 1,
    "data.num_workers": 1,
    "model.num_classes": 1,
    "model.input_shape": 1,
    "seed": 0,
    "repeat": 0,
    "repeats": 1,
    "window.warmup_steps": 1,
    "window.warmup_s": 0,
    "window.latency_s": 0,
    "window.latency_steps": 1,
    "breakdown_s": 0,
}
ABOVE_ZERO = ("timeout_s", "window.measure_s", "window.block_s", "window.width", "model.learning_rate")
MAX_SEED = 2**32 - 1


def check(run: RunConfig) -> None:
    """Checks every setting's range.

    Raises:
        UserError: a value is out of range; the message names the flag and the range.
    """
    _check_data(run.data)
    settings = dict(_numbers(asdict(run)))
    settings["model.input_shape"] = min(run.model.input_shape, default=0)
    for flag, value in settings.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{flag}={value}: should be a finite number")
        if isinstance(value, int) and value > MAX_COUNT:
            raise UserError(f"{flag}={value}: should be at most {MAX_COUNT}")
    for flag, least in LEAST.items():
        if (value := settings.get(flag, least)) < least:
            raise UserError(f"{flag}={value}: should be at least {least}")
    for flag, most in {"seed": MAX_SEED, "threads": usable_cores()}.items():
        if (value := settings.get(flag, most)) > most:
            raise UserError(f"{flag}={value}: should be at most {most}")
    for flag in ABOVE_ZERO:
        if settings[flag] <= 0:
            raise UserError(f"{flag}={settings[flag]:g}: should be above 0")


def _check_data(data: DataConfig) -> None:
    random = data.name == RANDOM
    fitting = [pipeline for pipeline in Pipeline if (pipeline in RANDOM_IMAGE_PIPELINES) == random]
    if data.pipeline not in fitting:
        raise UserError(f"data.pipeline={data.pipeline}: not for data={data.name}. Choose from: {', '.join(fitting)}.")
    if random and data.augment != Augment.none:
        raise UserError(f"data.augment={data.augment}: random images are not varied. Choose from: none.")


def _numbers(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, int | float]]:
    """Yields every setting that is a number, with its dotted name."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield prefix + name, value
