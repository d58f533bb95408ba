"""Stand-ins are the same on every run, and a network learns them."""

import numpy as np
import pytest

from accelbench.data.arrays import load_split
from accelbench.data.stand_ins import save_drawn


@pytest.mark.parametrize(("in_colour", "shape"), [(False, (20, 28, 28)), (True, (20, 28, 28, 3))])
def test_drawings_are_the_same_each_time_and_differ_from_each_other(tmp_path, in_colour, shape):
    found = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        save_drawn(tmp_path / name, 28, in_colour=in_colour, nums={"train": 20, "test": 10})
        found.append(load_split(tmp_path / name, "train"))
    assert found[0].images.shape == shape
    assert np.array_equal(found[0].images, found[1].images)
    assert found[0].labels.tolist() == [*range(10), *range(10)]
    assert len({image.tobytes() for image in (*found[0].images, *load_split(tmp_path / "one", "test").images)}) == 30
