import itertools

import numpy as np
import pytest

from accelbench.data.order import Order
from accelbench.errors import UnsupportedError


def flat(batches):
    return np.concatenate(list(batches)).tolist()


def test_a_pass_has_every_sample_once_and_each_pass_its_own_order():
    order = Order(100, 32, shuffle=True, seed=3, last="keep")
    first, second = flat(order), flat(order)
    assert sorted(first) == sorted(second) == list(range(100))
    assert first != second
    assert len(order) == 4


def test_the_order_depends_on_the_seed_alone():
    first, same, other = (flat(Order(50, 8, shuffle=True, seed=seed, last="keep")) for seed in (1, 1, 2))
    assert first == same
    assert first != other


@pytest.mark.parametrize(("last", "sizes"), [("keep", [4, 4, 2]), ("drop", [4, 4]), ("pad", [4, 4, 2])])
def test_the_short_last_batch(last, sizes):
    order = Order(10, 4, last=last)
    assert [len(batch) for batch in order] == sizes
    assert len(order) == len(sizes)
    assert order.num_samples == sum(sizes)  # padding is the feed's, and not counted


def test_an_endless_order_goes_on_with_full_batches():
    order = Order(10, 4, endless=True, last="keep")
    assert [len(batch) for batch in itertools.islice(order, 25)] == [4] * 25
    with pytest.raises(TypeError):
        len(order)


def test_a_batch_that_can_never_be_filled_is_refused():
    with pytest.raises(UnsupportedError, match="batch_size=11"):
        Order(10, 11, endless=True, last="keep")
