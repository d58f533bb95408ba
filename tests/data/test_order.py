import itertools

import numpy as np
import pytest

from accelbench.data.order import Order


@pytest.mark.parametrize("num_parts", [1, 2, 4])
@pytest.mark.parametrize("last", ["keep", "drop", "pad"])
@pytest.mark.parametrize("num", [16, 19, 20, 22])
def test_an_epoch_has_every_sample_once_in_an_order_of_its_own_which_all_parts_share(num, last, num_parts):
    def parts(endless=False):
        settings = {"shuffle": True, "seed": 7, "last": last, "endless": endless}
        return [Order(num, 8, **settings, part=(index, num_parts)) for index in range(num_parts)]

    whole = Order(num, 8, shuffle=True, seed=7, last=parts()[0].last)
    shares, epochs = parts(), []
    for _ in range(2):
        batches = [np.concatenate(parts_of_batch).tolist() for parts_of_batch in zip(*shares, strict=True)]
        assert batches == [batch.tolist() for batch in whole]
        assert len(batches) == len(whole)
        epochs.append(sum(batches, []))
    assert epochs[0] != epochs[1]
    assert [len(set(epoch)) for epoch in epochs] == [whole.num_samples] * 2 == [len(epoch) for epoch in epochs]
    assert {(part.num_samples, part.part_size) for part in shares} == {(whole.num_samples, 8 // num_parts)}
    assert whole.last == ("drop" if last == "keep" and num % 8 % num_parts else last)
    endless = [list(itertools.islice(part, 10)) for part in parts(endless=True)]
    assert {len(batch) for part in endless for batch in part} == {8 // num_parts}
