import re

import numpy as np
import pytest

from accelbench.errors import UserError
from accelbench.schema.cell import Server
from accelbench.serving.arrivals import due_ns, num_requests


def test_arrivals_have_the_rate_and_are_as_irregular_as_a_poisson_process():
    due = due_ns(10_000, 500.0, seed=1)
    gaps = np.diff(due)
    assert (due.dtype, len(due)) == (np.int64, 10_000)
    assert gaps.min() >= 0
    assert 19.9e9 < due[-1] <= 20e9
    assert gaps.mean() == pytest.approx(2e6, rel=0.01)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.05)  # as an exponential distribution's
    assert (due == due_ns(10_000, 500.0, seed=1)).all()
    assert (due != due_ns(10_000, 500.0, seed=2)).any()


@pytest.mark.parametrize(("rate", "duration_s", "num"), [(50.0, 20.0, 1000), (0.01, 1.0, 1)])
def test_requests_of_a_duration(rate, duration_s, num):
    assert num_requests(Server(rate=rate, duration_s=duration_s)) == num


@pytest.mark.parametrize("rate", [6e5, 1e6, 1e308])
def test_too_many_requests_are_refused_with_a_duration_that_would_do(rate):
    said = rf"server.rate={re.escape(f'{rate:g}')}: more than 10,000,000 requests: use server.duration_s=(.*) or less"
    with pytest.raises(UserError, match=said) as refused:
        num_requests(Server(rate=rate, duration_s=20.0))
    shorter = float(re.search(said, str(refused.value)).group(1))
    assert 9.8e6 < num_requests(Server(rate=rate, duration_s=shorter)) <= 1e7
