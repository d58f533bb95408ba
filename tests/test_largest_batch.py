import pytest

from accelbench.largest_batch import search


@pytest.mark.parametrize("limit", [1, 2, 3, 17, 100, 1000, 4096])
@pytest.mark.parametrize("start", [1, 8, 128])
def test_the_largest_that_fits_is_found_to_an_eighth(limit, start):
    tried = []

    def fits(batch):
        tried.append(batch)
        return batch <= limit

    largest, smallest = search(fits, start)
    assert largest <= limit < smallest
    assert smallest - largest <= max(1, largest / 8)
    assert len(tried) == len(set(tried)) <= 20


def test_where_nothing_fits_there_is_none():
    assert search(lambda batch: False, 8) == (None, 1)


def test_the_search_ends_at_what_is_asked_for_at_most():
    assert search(lambda batch: True, 8, most=100) == (64, None)
