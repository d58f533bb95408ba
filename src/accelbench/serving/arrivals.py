"""When requests are due: a seeded Poisson process that has exactly the rate that was asked for."""

import numpy as np
from numpy.typing import NDArray

from accelbench.errors import UserError
from accelbench.schema.cell import Server

MAX_REQUESTS = 10_000_000  # in the memory of two processes and a file of 320 MB


def due_ns(num: int, rate: float, seed: int) -> NDArray[np.int64]:
    """When each of `num` requests is due, in nanoseconds, ascending, `rate` of them a second."""
    # Given how many arrivals a Poisson process has in a time, they are sorted uniform numbers there (Ross, Stochastic
    # Processes, theorem 2.3.1). So every run has the rate that it says; that of a Poisson process itself would differ
    # by one part in the square root of `num`.
    times = np.random.default_rng(seed).random(num)
    times.sort()
    return (times * (num / rate * 1e9)).astype(np.int64)


def num_requests(server: Server) -> int:
    """How many requests arrive in `server.duration_s`. Raises UserError: more than `MAX_REQUESTS`."""
    if (num := server.rate * server.duration_s) > MAX_REQUESTS:
        shorter = f"use server.duration_s={0.995 * MAX_REQUESTS / server.rate:.3g} or less"  # .3g may add 0.5 %
        raise UserError(f"server.rate={server.rate:g}: more than {MAX_REQUESTS:,} requests: {shorter}")
    return max(1, round(num))
