"""Yields batches of requests. The requests arrive at random times, or a client sends one after each answer."""

import contextlib
import fcntl
import itertools
import mmap
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from accelbench.errors import UserError
from accelbench.schema.cell import Server
from accelbench.serving import generator
from accelbench.stats.requests import num_requests_for, surely_grows

Times = NDArray[np.int64]
Batches = Iterator[tuple[int, int]]  # (index of the first sample, number of samples) of each batch

now_ns = time.monotonic_ns
PIPE_BYTES = 1 << 20  # size of the pipe, one byte per waiting request; Linux allows users no larger pipe
LEAD_NS = 5_000_000  # time from the start until the first request
START_S = 60.0  # longest time for the generator to start
CHECK_NS = 100_000_000  # time between two checks of the number of waiting requests
LEAST_S = 5.0  # seconds before a queue can count as growing, because a stall at the start is no growth
MAX_WAITING = 2.0  # a queue may be growing if it has more requests than arrive within this many latency limits
MAX_REQUESTS = 10_000_000  # most requests of a run; their times take 320 MB of shared memory
TIME_LIMIT = "the cell's time limit"


def queries(size: int, max_batch: int, least: int, duration_s: float, until_s: float) -> Batches:
    """Yields batches of queries, one query after another. A query has `size` samples.

    The iteration ends when `duration_s` seconds are over and at least `least` queries were made. It also ends when
    `time.perf_counter()` reaches `until_s`.
    """
    end_s = time.perf_counter() + duration_s
    for query in itertools.count():
        now_s = time.perf_counter()
        if now_s >= until_s or (query >= least and now_s >= end_s):
            return
        for first in range(0, size, max_batch):
            yield query * size + first, min(max_batch, size - first)


def due_ns(num: int, rate: float, seed: int) -> Times:
    """Returns the nanoseconds at which `num` requests are due, in rising order. The mean rate is `rate` per second.

    The requests arrive as in a Poisson process whose number of events is fixed, so that every run has exactly the
    requested rate. Their times are uniform random numbers that are sorted (Ross, Stochastic Processes, theorem 2.3.1).
    In a plain Poisson process, the rate would have a relative standard deviation of 1 / sqrt(num).
    """
    times = np.random.default_rng(seed).random(num)
    times.sort()
    return (times * (num / rate * 1e9)).astype(np.int64)


def num_requests(server: Server) -> int:
    """Returns the number of requests in `server.duration_s`. Raises UserError if it is more than `MAX_REQUESTS`."""
    if (num := server.rate * server.duration_s) > MAX_REQUESTS:
        # 0.995, because .3g may round up by 0.5 %
        shorter = f"use server.duration_s={0.995 * MAX_REQUESTS / server.rate:.3g} or less"
        raise UserError(f"server.rate={server.rate:g}: more than {MAX_REQUESTS:,} requests: {shorter}")
    return max(1, round(num))


class Arrivals:
    """Receives the requests that a generator process issues.

    The process starts when this object is created. It issues requests while the caller iterates over `batches`. It ends
    when the context ends.
    """

    def __init__(self, server: Server, seed: int, until_s: float) -> None:
        self.ended_early: str | None = None
        self.num = 0  # requests that have arrived
        self._server = server
        self._until_ns = until_s * 1e9
        self._is_closed = False
        self._checks: tuple[list[float], list[float]] = ([], [])  # times of the checks, and waiting requests
        surely_grows(range(9), range(9))  # its first call takes 0.1 s, for imports
        self._buffer = bytearray(PIPE_BYTES)
        num = num_requests(server)
        file = os.memfd_create("requests")
        os.ftruncate(file, 32 * num)
        self._times = np.frombuffer(mmap.mmap(file, 0), np.int64).reshape(4, -1)  # the rows of `summary.ROWS`
        self._times[0] = due_ns(num, server.rate, seed)
        self.due = self._times[0]
        self.answered = self._times[2:]
        self._pipe, theirs = os.pipe()  # not standard output: the interpreter may print there when it starts
        command = [sys.executable, "-I", "-S", str(generator.__file__), str(file), str(theirs)]
        with open(file, "wb"), open(theirs, "wb"):
            self._process = subprocess.Popen(command, bufsize=0, pass_fds=[file, theirs], stdin=subprocess.PIPE)
        with contextlib.suppress(OSError):  # fails if the user has too many large pipes
            fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)  # if a pipe is full, further requests are late

    def __enter__(self) -> "Arrivals":
        return self

    def __exit__(self, *error: object) -> None:
        if not self._is_closed:
            self._process.kill()
        self._process.__exit__(None, None, None)  # waits for the end of the process
        os.close(self._pipe)

    def batches(self, max_batch: int) -> Batches:
        """Yields batches as Triton's dynamic batcher does.

        A batch is yielded when it is full, or when its oldest request has waited for `max_delay_ms`. The iteration ends
        early if the queue is sure to grow without limit, because more time would not change the result.
        """
        self.due += now_ns() + LEAD_NS - self.due[0]
        self._process.stdin.write(b"\n")  # type: ignore[union-attr]
        first = 0  # the next request to put into a batch
        delay_ns = int(self._server.max_delay_ms * 1e6)
        while True:
            self._receive()
            now = now_ns()
            waiting = self.num - first
            if self._ends(now, waiting) or (self._is_closed and not waiting):
                return
            left_ns = int(self.due[first]) + delay_ns - now if waiting else CHECK_NS
            if waiting and (waiting >= max_batch or left_ns <= 0):
                num = min(waiting, max_batch)
                yield first, num
                first += num
            else:  # no wait for a closed pipe, which is always ready
                select.select([] if self._is_closed else [self._pipe], [], [], min(left_ns, CHECK_NS) / 1e9)

    def wait(self) -> None:
        """Waits until the process is ready. Raises RuntimeError if it does not start."""
        if not select.select([self._pipe], [], [], START_S)[0] or os.read(self._pipe, 1) != generator.READY:
            raise RuntimeError("the process that issues requests did not start")
        os.set_blocking(self._pipe, False)

    def _receive(self) -> None:
        with contextlib.suppress(BlockingIOError):  # raised when the pipe is empty
            while num := os.readv(self._pipe, [self._buffer]):
                self.num += num
            self._is_closed = True

    def _ends(self, now: int, waiting: int) -> bool:
        """Returns whether the run ends early: the time limit is reached, or the queue is sure to grow without limit.

        Checks this only every `CHECK_NS`. Between two checks, returns False.
        """
        at_s, waited = self._checks
        if at_s and now < at_s[-1] * 1e9 + CHECK_NS:
            return False
        at_s.append(now / 1e9)
        waited.append(waiting)
        most = MAX_WAITING * self._server.rate * self._server.latency_ms / 1e3
        # The queue does not count as growing before this many requests have arrived, unless most of them wait.
        fewest = min(num_requests_for(self._server.percentile), len(self.due) // 2)
        is_too_early = at_s[-1] - at_s[0] < LEAST_S or (self.num < fewest and 2 * waiting <= self.num)
        if now >= self._until_ns:
            self.ended_early = TIME_LIMIT
        elif waiting > most and not is_too_early and surely_grows(at_s, waited):
            self.ended_early = f"the queue grows: {waiting} requests wait after {at_s[-1] - at_s[0]:.1f} s"
        return self.ended_early is not None

    def times(self, num_answered: int) -> tuple[Times, Times]:
        """Returns the times at which requests were due, and the times at which they were issued.

        If the run ended early, some requests have no answer. Such a request is left out if it has not yet waited longer
        than the latency limit.
        """
        num = num_answered
        if self.ended_early:
            missed_ns = now_ns() - int(self._server.latency_ms * 1e6)
            num = max(num, min(self.num, int(np.searchsorted(self.due[: self.num], missed_ns))))
        return self.due[:num].copy(), self._times[1, :num].copy()

    def death(self) -> str | None:
        """Returns a message if the process ended too early, else None. Call this method after the context has ended."""
        code = self._process.returncode
        num = len(self.due)
        # If the run ended early, the context has killed the process.
        if (self.ended_early and not self._is_closed) or (self.num == num and code == 0):
            return None
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"the process that issues requests ended after {self.num} of {num} ({how})"
