"""How a load test lies: tests a model that stalls once a second in wrong ways, and compares the results with the truth.

The clock is simulated, so every machine gets the same numbers. `python docs/pages.py` writes them into docs/serving.md.
"""

import math
from collections.abc import Iterator
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

TOOK_S, STALL_S = 0.001, 0.8
RATE, DURATION_S, LIMIT_MS, SHORT_S, NUM_SEEDS = 100, 60.0, 900.0, 10.0, 10
LADDER = range(100, 215, 5)  # requests/s that the searches try


class Stalls:
    """A model that takes 1 ms for a call. The first call after each full second takes 800 ms longer."""

    def __init__(self) -> None:
        self.next_s = 1.0

    def end_s(self, start_s: float) -> float:
        """Returns the time when a call that begins at `start_s` ends."""
        stall_s = STALL_S if start_s >= self.next_s else 0.0
        if stall_s:
            self.next_s = math.floor(start_s) + 1.0
        return start_s + TOOK_S + stall_s


def closed_loop() -> tuple[float, NDArray[np.float64]]:
    """Sends each request once the last one is answered. Returns requests per second, and latencies in ms."""
    model = Stalls()
    ends = [0.0]
    while ends[-1] < DURATION_S:
        ends.append(model.end_s(ends[-1]))
    return (len(ends) - 1) / ends[-1], 1000 * np.diff(ends)


def open_loop(rate: float, seed: int = 0, duration_s: float = DURATION_S) -> tuple[NDArray[np.float64], ...]:
    """Makes requests due at random times. Returns their latencies in ms, since they were due and since they were sent.

    The client has one connection. So it sends a request late if the last request is not answered yet.
    """
    due = np.sort(np.random.default_rng(seed).uniform(0, duration_s, round(rate * duration_s)))
    model = Stalls()
    sent = []
    done = [0.0]
    for each in due:
        sent.append(max(each, done[-1]))
        done.append(model.end_s(sent[-1]))
    return 1000 * (done[1:] - due), 1000 * (np.array(done[1:]) - sent)


def p99(latencies: NDArray[np.float64]) -> float:
    """Returns the 99th percentile of latencies."""
    return float(np.quantile(latencies, 0.99, method="higher"))


def highest(seed: int, duration_s: float) -> int:
    """Returns the rate of `LADDER` before the first rate whose p99 is above the limit. Every probe has this seed."""
    return [*takewhile(lambda rate: p99(open_loop(rate, seed, duration_s)[0]) <= LIMIT_MS, LADDER)][-1]


def rows() -> Iterator[str]:
    """Yields the rows of the table in docs/serving.md."""
    rate, closed = closed_loop()
    since_due, since_sent = open_loop(RATE)
    beyond_due, beyond_sent = open_loop(LADDER[-1])
    above_500 = 100 * np.mean(since_due > 500)
    short = [highest(seed, SHORT_S) for seed in range(NUM_SEEDS)]
    long = highest(0, DURATION_S)
    failing = LADDER[LADDER.index(long) + 1]
    least, most = min(short), max(short)
    beyond = LADDER[-1]
    for cells in (
        (
            "closed loop: each request waits for the answer to the previous request",
            f"p99 {p99(closed):.0f} ms, {rate:.0f} requests/s",
            f"p99 {p99(since_due):.0f} ms, at {RATE} requests/s",
        ),
        (
            "the client sends a request late, and counts its latency only from then",
            f"at {RATE} requests/s: p99 {p99(since_sent):.0f} ms; at {beyond}: p99 {p99(beyond_sent):.0f} ms",
            f"at {RATE} requests/s: p99 {p99(since_due):.0f} ms; at {beyond}: p99 {p99(beyond_due):,.0f} ms, growing",
        ),
        (
            "the average latency is reported instead of a percentile",
            f"mean {since_due.mean():.0f} ms, within a limit of 500 ms",
            f"p99 {p99(since_due):.0f} ms; {above_500:.0f} % of the requests take more than 500 ms",
        ),
        (
            "the first rate that fails is reported as the maximum",
            f"{failing} requests/s within {LIMIT_MS:.0f} ms",
            f"p99 {p99(open_loop(failing)[0]):,.0f} ms at this rate; the highest rate that passes is {long}",
        ),
        (
            f"a search for the best rate within {LIMIT_MS:.0f} ms tests each rate for {SHORT_S:.0f} s, with one seed",
            f"{least} to {most} requests/s, depending on the seed ({NUM_SEEDS} seeds)",
            f"at {most} requests/s, p99 over a minute is {p99(open_loop(most)[0]):,.0f} ms, above the limit",
        ),
    ):
        yield f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    print(*rows(), sep="")
