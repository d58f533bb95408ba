"""The ranges of kept numbers, as types of fields. `serialize.load` refuses a number outside of its range.

The bounds are far beyond what can be measured, and near enough that a rate, a sum or a ratio of such numbers is finite.
"""

import sys
from typing import Annotated

from msgspec import Meta

TICK_S = 1e-9  # the clock counts nanoseconds
MAX_S = 1e9  # thirty years
MAX_COUNT = 2**63 - 1
MAX_RATE = 1e30
MAX_NUMBER = 1e100
MAX_DEVICES = 100_000

Duration = Annotated[float, Meta(ge=TICK_S, le=MAX_S)]  # seconds that something took
Seconds = Annotated[float, Meta(ge=0.0, le=MAX_S)]  # the same for what may take no time, and times of a clock
Difference = Annotated[float, Meta(ge=-MAX_S, le=MAX_S)]  # of two durations
Number = Annotated[float, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]  # of any meaning, such as a loss
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
NotNegative = Annotated[float, Meta(ge=0.0, le=sys.float_info.max)]
Positive = Annotated[float, Meta(gt=0.0, le=sys.float_info.max)]
Rate = Annotated[float, Meta(ge=1 / MAX_RATE, le=MAX_RATE)]
Reading = Annotated[float, Meta(ge=-MAX_RATE, le=MAX_RATE)]  # of a sensor
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
AtLeastOne = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
Devices = Annotated[int, Meta(ge=1, le=MAX_DEVICES)]
