"""Lists of floats as arrays."""

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def floats(values: Sequence[float]) -> "NDArray[np.float64]":
    """The numbers as an array that can't be written to, shape (len(values),).

    It takes less than half of the time of `np.asarray` (3.6 against 8.5 us for 400 numbers).

    Raises:
        struct.error: one is no number, or a whole number that no float can hold.
    """
    import numpy as np  # here, since most commands' modules import this one, and numpy is slow to import

    return np.frombuffer(struct.pack(f"{len(values)}d", *values), dtype=np.float64)
