"""Yields batches of requests. The requests arrive at random times, or a client sends one after each answer."""

import contextlib
import fcntl
import itertools
import mmap
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from accelbench.errors import UserError
from accelbench.schema.cell import Server
from accelbench.serving import generator

Times = NDArray[np.int64]
Batches = Iterator[tuple[int, int]]  # (index of the first sample, number of samples) of each batch

now_ns = time.monotonic_ns
PIPE_BYTES = 1 << 20  # size of the pipe, one byte per waiting request; Linux allows users no larger pipe
LEAD_NS = 5_000_000  # time from the start until the first request
START_S = 60.0  # longest time for the generator to start
CHECK_NS = 100_000_000  # longest time between two looks at the clock
# A run ends early if a request has waited for longer than both: so many latency limits, and so many nanoseconds.
MAX_WAITED, LONGEST_NS = 10, 2_000_000_000
MAX_REQUESTS = 2_000_000  # most requests of a run; their times take up to 200 MB
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
    num = server.rate * server.duration_s
    if num > MAX_REQUESTS:
        why = f"more than {MAX_REQUESTS:,} requests in server.duration_s={server.duration_s:g}"
        raise UserError(f"server.rate={server.rate:g}: {why}: use a lower rate or a shorter duration")
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
        self._limit_ns = int(server.latency_ms * 1e6)
        self._is_closed = False
        self._buffer = bytearray(PIPE_BYTES)
        num = num_requests(server)
        file = os.memfd_create("requests")
        os.ftruncate(file, 16 * num)
        self.due, self.issued = np.frombuffer(mmap.mmap(file, 0), np.int64).reshape(2, -1)
        self.due[:] = due_ns(num, server.rate, seed)
        self._pipe, theirs = os.pipe()  # not standard output: the interpreter may print there when it starts
        command = [sys.executable, "-I", "-S", str(generator.__file__), str(file), str(theirs)]
        with open(file, "wb"), open(theirs, "wb"):
            self._process = subprocess.Popen(command, bufsize=0, pass_fds=[file, theirs], stdin=subprocess.PIPE)
        with contextlib.suppress(OSError):  # fails if the user has too many large pipes
            fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)  # if a pipe is full, further requests are late

    def __enter__(self) -> "Arrivals":
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.__exit__(None, None, None)  # waits for the end of the process
        os.close(self._pipe)

    def wait(self) -> None:
        """Waits until the process is ready. Raises RuntimeError if it does not start."""
        if not select.select([self._pipe], [], [], START_S)[0] or os.read(self._pipe, 1) != generator.READY:
            raise RuntimeError("the process that issues requests did not start")
        os.set_blocking(self._pipe, False)

    def batches(self, max_batch: int) -> Batches:
        """Yields batches as Triton's dynamic batcher does.

        A batch is yielded when it is full, or when its oldest request has waited for `max_delay_ms`. The iteration ends
        early if a request waits so long that more time would not change the result.
        """
        self.due += now_ns() + LEAD_NS - self.due[0]
        self._process.stdin.write(b"\n")  # type: ignore[union-attr]
        delay_ns = int(self._server.max_delay_ms * 1e6)
        longest_ns = max(LONGEST_NS, MAX_WAITED * self._limit_ns)
        first = 0  # the next request to put into a batch
        while True:
            self._receive()
            now = now_ns()
            waiting = self.num - first
            waited_ns = now - int(self.due[first]) if waiting else 0
            if now >= self._until_ns:
                self.ended_early = TIME_LIMIT
            elif waited_ns > longest_ns:
                self.ended_early = f"{waiting} requests wait, the first of them for {waited_ns / 1e9:.1f} s"
            if self.ended_early or (self._is_closed and not waiting):
                return
            left_ns = delay_ns - waited_ns if waiting else CHECK_NS
            if waiting and (waiting >= max_batch or left_ns <= 0):
                num = min(waiting, max_batch)
                yield first, num
                first += num
            else:  # no wait for a closed pipe, which is always ready
                select.select([] if self._is_closed else [self._pipe], [], [], min(left_ns, CHECK_NS) / 1e9)

    def _receive(self) -> None:
        with contextlib.suppress(BlockingIOError):  # raised when the pipe is empty
            while num := os.readv(self._pipe, [self._buffer]):
                self.num += num
            self._is_closed = True

    def num_known(self, num_answered: int) -> int:
        """Returns the number of requests whose latency is known, or known to be above the limit.

        If the run ended early, some requests have no answer. Such a request is known if it has waited longer than the
        latency limit.
        """
        if not self.ended_early:
            return num_answered
        missed = int(np.searchsorted(self.due[: self.num], now_ns() - self._limit_ns))
        return max(num_answered, missed)
