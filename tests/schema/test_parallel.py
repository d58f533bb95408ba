import multiprocessing as mp
import os
import signal

import pytest

from accelbench.errors import UserError
from accelbench.schema import parallel
from accelbench.schema.parallel import mapped


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch):
    for name, value in {"NUM_ALONE": 2, "CHUNK": 3}.items():
        monkeypatch.setattr(parallel, name, value)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


def test_a_killed_process_is_an_error_that_says_so():
    here = os.getpid()

    def square(item):
        if item == 6 and os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return item**2

    with pytest.raises(UserError, match="a process that read records was killed"):
        list(mapped(square, range(20)))


def test_no_process_is_left_if_the_rest_is_not_wanted():
    before = set(mp.active_children())
    found = mapped(lambda item: [item] * 100_000, range(20))
    assert [next(found)[0] for _ in range(4)] == [0, 1, 2, 3]
    assert len(set(mp.active_children()) - before) == 2
    found.close()
    assert set(mp.active_children()) <= before
