"""The limits of the settings, checked once, when a configuration has been composed."""

import math
import reprlib
from collections.abc import Mapping
from typing import Annotated, Any, get_args, get_origin

from accelbench.devices.cpu import usable_cores
from accelbench.errors import UserError
from accelbench.schema.cell import Window
from accelbench.schema.ranges import MAX_COUNT, Range
from accelbench.schema.setting import Declared, declared
from accelbench.schema.text import MAX_TEXT, beginning, one_line
from accelbench.schema.vocab import RANDOM, RANDOM_IMAGE_PIPELINES, Augment, Pipeline, Protocol
from accelbench.settings.config import DataConfig, RunConfig
from accelbench.settings.executors import Executor
from accelbench.settings.params import check_name
from accelbench.settings.sizes import MAX_BRACKETS
from accelbench.settings.suites import PATHS

# What a cell of protocol=window spends at least so many seconds on.
SPANS = ("warmup_s", "measure_s", "block_s")
MAX_SHOWN = 60  # characters of a value or a name in a message
DECLARED = tuple(declared(RunConfig))


def check(run: RunConfig) -> None:
    """Checks every setting's limits.

    Raises:
        UserError: a value is out of range; the message names the flag and the range.
    """
    _check_data(run.data)
    check_name(f"suite.name={run.suite.name}", run.suite.name, "a suite")
    for each in DECLARED:
        _check_value(each, each.value(run))
    is_here = run.executor.name == Executor.local  # a node may have more cores than this machine
    if is_here and run.threads is not None and run.threads > (cores := usable_cores()):
        raise UserError(f"threads={run.threads}: should be at most {cores}")
    for name in SPANS if run.protocol == Protocol.window else ():
        # A short time limit alone is no mistake: the cell may be quick.
        if (value := getattr(run.window, name)) > max(getattr(Window, name), run.timeout_s):
            raise UserError(f"window.{name}={value:g}: the cell is ended after {run.timeout_s:g} s (timeout_s)")


def _check_value(setting: Declared, value: Any) -> None:
    flag, said, bounds = setting.path, setting.said, _range(setting.kind) or Range(-math.inf, math.inf)
    if flag not in PATHS:  # no record keeps them
        _check_content(flag, value)
    number = min(value, default=0) if isinstance(value, list) and _range(setting.kind) else value
    if not isinstance(number, int | float) or isinstance(number, bool):
        return
    if said.above is not None and number <= said.above:
        raise UserError(f"{flag}={number:g}: should be above {said.above:g}")
    if number < (least := bounds.low if said.least is None else said.least):
        raise UserError(f"{flag}={number}: should be at least {least:g}")
    if number > (most := bounds.high if said.most is None else said.most):
        raise UserError(f"{flag}={number}: should be at most {most}")


def _range(kind: Any) -> Range | None:
    if get_origin(kind) is Annotated:
        return next((each for each in get_args(kind) if isinstance(each, Range)), None)
    return next((found for part in get_args(kind) if (found := _range(part))), None)


def _check_data(data: DataConfig) -> None:
    random = data.name == RANDOM
    fitting = [pipeline for pipeline in Pipeline if (pipeline in RANDOM_IMAGE_PIPELINES) == random]
    if data.pipeline not in fitting:
        raise UserError(f"data.pipeline={data.pipeline}: not for data={data.name}. Choose from: {', '.join(fitting)}.")
    if random and data.augment != Augment.none:
        raise UserError(f"data.augment={data.augment}: random images are not varied. Choose from: none.")


def _check_content(flag: str, value: Any, depth: int = 0) -> None:
    if depth > MAX_BRACKETS:
        raise UserError(f"{one_line(flag)[:MAX_SHOWN]}: nested deeper than {MAX_BRACKETS}")
    if isinstance(value, Mapping):
        for name, part in value.items():
            _check_content(f"{flag}.{name}", part, depth + 1)
            _check_content(flag, str(name))
    elif isinstance(value, list):
        for part in value:
            _check_content(flag, part, depth + 1)
    elif isinstance(value, str) and beginning(value) != value:
        shown = beginning(one_line(value), MAX_SHOWN)
        raise UserError(f"{flag}={shown}: longer than {MAX_TEXT} characters, or with characters that can't be shown")
    elif isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{flag}={value}: should be a finite number")
    elif isinstance(value, int) and abs(value) > MAX_COUNT:
        raise UserError(f"{flag}={reprlib.repr(value)}: should be at most {MAX_COUNT}")
