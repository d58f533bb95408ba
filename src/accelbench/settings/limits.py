"""The ranges of the settings, checked once, when a configuration has been composed."""

import math
import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from accelbench.devices.cpu import usable_cores
from accelbench.errors import UserError
from accelbench.schema.cell import Window
from accelbench.schema.ranges import MAX_COUNT
from accelbench.schema.text import MAX_TEXT, beginning, one_line
from accelbench.schema.vocab import RANDOM, RANDOM_IMAGE_PIPELINES, Augment, Pipeline, Protocol
from accelbench.settings.config import DataConfig, RunConfig
from accelbench.settings.executors import Executor
from accelbench.settings.params import check_name
from accelbench.settings.sizes import MAX_BRACKETS

LEAST = {
    "batch_size": 1,
    "devices": 1,
    "engine.steps_per_execution": 1,
    "epochs": 1,
    "trainer.accumulate_grad_batches": 1,
    "trainer.gradient_clip_val": 0,
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
    "executor.slurm.time": 1,
    "executor.slurm.nodes": 1,
    "executor.ray.nodes": 1,
    "executor.ray.num_retries": 0,
}
ABOVE_ZERO = ("timeout_s", "window.measure_s", "window.block_s", "window.width", "model.learning_rate")
# What a cell of protocol=window spends at least so many seconds on, with its default.
SPANS = {f"window.{name}": getattr(Window, name) for name in ("warmup_s", "measure_s", "block_s")}
# Settings with any text, or any arguments.
TEXTS = (
    *("model.name", "model.target", "model.args", "model.weights", "model.batch", "model.batch_args", "model.inputs"),
    *("model.loss", "model.samples", "model.tokens", "model.optimizer", "data.target", "data.args", "data.path"),
)
MAX_SEED = 2**32 - 1
MAX_SHOWN = 60  # characters of a value or a name in a message


def check(run: RunConfig) -> None:
    """Checks every setting's range.

    Raises:
        UserError: a value is out of range; the message names the flag and the range.
    """
    _check_data(run.data)
    check_name(f"suite.name={run.suite.name}", run.suite.name, "a suite")
    for flag in TEXTS:
        group, name = flag.split(".")
        _check_argument(flag, getattr(getattr(run, group), name))
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
    is_here = run.executor.name == Executor.local  # a node may have more cores than this machine
    cores = usable_cores() if is_here else MAX_COUNT
    for flag, most in {"seed": MAX_SEED, "threads": cores}.items():
        if (value := settings.get(flag, most)) > most:
            raise UserError(f"{flag}={value}: should be at most {most}")
    for flag in ABOVE_ZERO:
        if settings[flag] <= 0:
            raise UserError(f"{flag}={settings[flag]:g}: should be above 0")
    for flag, usual in SPANS.items() if run.protocol == Protocol.window else ():
        # A short time limit alone is no mistake: the cell may be quick.
        if settings[flag] > max(usual, run.timeout_s):
            raise UserError(f"{flag}={settings[flag]:g}: the cell is ended after {run.timeout_s:g} s (timeout_s)")


def _check_data(data: DataConfig) -> None:
    random = data.name == RANDOM
    fitting = [pipeline for pipeline in Pipeline if (pipeline in RANDOM_IMAGE_PIPELINES) == random]
    if data.pipeline not in fitting:
        raise UserError(f"data.pipeline={data.pipeline}: not for data={data.name}. Choose from: {', '.join(fitting)}.")
    if random and data.augment != Augment.none:
        raise UserError(f"data.augment={data.augment}: random images are not varied. Choose from: none.")


def _check_argument(flag: str, value: Any, depth: int = 0) -> None:
    """Checks that a record with this value can be written and read back as it is."""
    if depth > MAX_BRACKETS:
        raise UserError(f"{one_line(flag)[:MAX_SHOWN]}: nested deeper than {MAX_BRACKETS}")
    if isinstance(value, Mapping):
        for name, part in value.items():
            _check_argument(f"{flag}.{name}", part, depth + 1)
            _check_argument(flag, str(name))
    elif isinstance(value, list):
        for part in value:
            _check_argument(flag, part, depth + 1)
    elif isinstance(value, str) and beginning(value) != value:
        shown = beginning(one_line(value), MAX_SHOWN)
        raise UserError(f"{flag}={shown}: longer than {MAX_TEXT} characters, or with characters that can't be shown")
    elif (isinstance(value, int) and abs(value) > MAX_COUNT) or (isinstance(value, float) and not math.isfinite(value)):
        raise UserError(f"{flag}={reprlib.repr(value)}: should be a finite number, and a whole one at most {MAX_COUNT}")


def _numbers(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, int | float]]:
    """Yields every setting that is a number, with its dotted name."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield prefix + name, value
