import itertools

import numpy as np
import pytest

from accelbench.data.order import Order


def test_an_epoch_has_every_sample_once_and_each_epoch_another_order():
    order = Order(100, 32, shuffle=True, seed=3, last="keep")
    first, second = (np.concatenate([*order]).tolist() for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(100))
    assert first != second
    assert len(order) == 4


@pytest.mark.parametrize("num_parts", [1, 2, 4])
@pytest.mark.parametrize("last", ["keep", "drop", "pad"])
@pytest.mark.parametrize("num", [16, 19, 20, 22])
def test_the_parts_of_all_are_the_whole(num, last, num_parts):
    def parts(endless=False):
        settings = {"shuffle": True, "seed": 7, "last": last, "endless": endless}
        return [Order(num, 8, **settings, part=(index, num_parts)) for index in range(num_parts)]

    whole = Order(num, 8, shuffle=True, seed=7, last=parts()[0].last)
    shares = parts()
    for _ in range(2):  # each pass has an order of its own, the same for all
        joined = [np.concatenate(batches).tolist() for batches in zip(*shares, strict=True)]
        assert joined == [batch.tolist() for batch in whole]
    assert {(part.num_samples, part.part_size) for part in shares} == {(whole.num_samples, 8 // num_parts)}
    assert whole.last == ("drop" if last == "keep" and num % 8 % num_parts else last)
    endless = [list(itertools.islice(part, 10)) for part in parts(endless=True)]
    assert {len(batch) for part in endless for batch in part} == {8 // num_parts}
