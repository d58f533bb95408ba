"""The ranges of kept numbers, as types of fields. `serialize.load` refuses a number outside of its range.

The bounds are far beyond what can be measured, and near enough that a rate, a sum or a ratio of such numbers is finite.
"""

import sys
from dataclasses import dataclass
from typing import Annotated

TICK_S = 1e-9  # the clock counts nanoseconds
MAX_S = 1e9  # thirty years
MAX_COUNT = 2**63 - 1
MAX_RATE = 1e30
MAX_NUMBER = 1e100
MAX_DEVICES = 100_000


@dataclass(frozen=True)
class Range:
    """Both bounds are allowed."""

    low: float
    high: float


Duration = Annotated[float, Range(TICK_S, MAX_S)]  # seconds that something took
Seconds = Annotated[float, Range(0.0, MAX_S)]  # the same for what may take no time, and times of a clock
Difference = Annotated[float, Range(-MAX_S, MAX_S)]  # of two durations
Number = Annotated[float, Range(-MAX_NUMBER, MAX_NUMBER)]  # of any meaning, such as a loss
Share = Annotated[float, Range(0.0, 1.0)]
NotNegative = Annotated[float, Range(0.0, sys.float_info.max)]
Rate = Annotated[float, Range(1 / MAX_RATE, MAX_RATE)]
Reading = Annotated[float, Range(-MAX_RATE, MAX_RATE)]  # of a sensor
Count = Annotated[int, Range(0, MAX_COUNT)]
AtLeastOne = Annotated[int, Range(1, MAX_COUNT)]
Devices = Annotated[int, Range(1, MAX_DEVICES)]
