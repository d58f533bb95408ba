"""Types with ranges for the numbers in files. `serialize.load` refuses a number that is outside of its range.

No measured number is near the ends of its range. If numbers are in range, their rates, sums and ratios are finite.
"""

import sys
from typing import Annotated

from msgspec import Meta

TICK_S = 1e-9  # the clock counts nanoseconds
MAX_S = 1e9  # about thirty years
MAX_COUNT = 2**63 - 1
MAX_RATE = 1e30
MAX_NUMBER = 1e100
MAX_DEVICES = 100_000

Duration = Annotated[float, Meta(ge=TICK_S, le=MAX_S)]  # seconds of something that takes time
Seconds = Annotated[float, Meta(ge=0.0, le=MAX_S)]  # seconds of something that may take no time; a clock's reading
Difference = Annotated[float, Meta(ge=-MAX_S, le=MAX_S)]  # difference of two durations in seconds
Number = Annotated[float, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]  # number of any meaning, such as a loss
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
NotNegative = Annotated[float, Meta(ge=0.0, le=sys.float_info.max)]
Positive = Annotated[float, Meta(gt=0.0, le=sys.float_info.max)]
Rate = Annotated[float, Meta(ge=1 / MAX_RATE, le=MAX_RATE)]
Reading = Annotated[float, Meta(ge=-MAX_RATE, le=MAX_RATE)]  # reading of a sensor
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
AtLeastOne = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
Devices = Annotated[int, Meta(ge=1, le=MAX_DEVICES)]
