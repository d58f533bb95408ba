import struct

import numpy as np
import pytest

from accelbench.stats.arrays import floats


@pytest.mark.parametrize("values", [[], [0.1, 1, -2e300, float("inf")], range(3)])
def test_the_array_has_the_numbers(values):
    found = floats(values)
    assert found.dtype == np.float64
    assert found.tolist() == list(values)


@pytest.mark.parametrize("value", [None, "1", 10**400], ids=["nothing", "text", "too large"])
def test_what_no_float_can_hold_is_refused(value):
    with pytest.raises(struct.error):
        floats([1.0, value])
