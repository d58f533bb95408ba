"""The main program of a host: a small process that runs one request after another in processes that it forks.

`hosts.Hosts` starts the host. The first line of its standard input lists the modules that the forkserver preloads. All
other lines are requests. For each request, the host writes the outcome as one line to a pipe. If a cell has several
processes (ranks), its outcome is the outcome of rank 0. But if a rank fails, the cell ends at once, and its outcome is
the outcome of that rank. The host ends when its standard input is closed.
"""

import contextlib
import json
import multiprocessing as mp
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import connection, forkserver
from typing import Any

from accelbench.devices.gpu import in_use
from accelbench.devices.proc import oom_kills
from accelbench.isolation import child
from accelbench.isolation.child import Do, Outcome, Request, decode, encode
from accelbench.isolation.usage_sampler import PAUSE_S, Sampler, children, end_orphans
from accelbench.lifeline import adopt_orphans
from accelbench.schema.cell import Device, Status
from accelbench.schema.secrets import masked

# Seconds from the answer of a process until it is killed if it does not exit: a framework's thread may hang.
END_S = 10.0
# Seconds that the host waits for the other processes' answers after one process of a cell has failed.
LATE_S = 1.0
STACK_S = 0.3  # seconds in which a hung process can print its call stack
LOCALHOST = "127.0.0.1"
# Bytes read from the end of a log; more than is kept, so that no secret is cut before masking.
READ_BYTES = 1 << 18
STACK = "(most recent call first):"  # end of the first line of a stack of faulthandler
HUNG_SIZE = 1500  # characters kept of the output of a hung cell, and of its stack


def main(answers: int) -> None:
    """Runs requests until standard input is closed. Writes answers to the pipe with the file descriptor `answers`."""
    outcomes = os.fdopen(answers, "w")
    context = mp.get_context("forkserver")
    adopt_orphans()
    context.set_forkserver_preload(json.loads(sys.stdin.readline()))
    forkserver.ensure_running()  # starts the imports now, before the first request

    def answer(line: str) -> None:
        outcomes.write(f"{line}\n")
        outcomes.flush()

    for line in sys.stdin:
        forkserver.ensure_running()  # starts another forkserver if the last one has died
        _Run(decode(Request, line), answer).run(context)


class _Rank:
    """A process (rank) of a request. It sends its answer through `pipe`."""

    is_over = False  # whether the process has answered or died
    answer: Outcome | None = None

    def __init__(self, context: Any, request: Request, environment: dict[str, str]) -> None:
        self.pipe, there = context.Pipe()
        self.process = context.Process(target=child.main, args=(request, environment, there), daemon=False)
        self.process.start()
        there.close()
        self.pid: int = self.process.pid  # also the id of its process group
        # The sentinel reports the end of the process. The pipe may stay open in a process that was forked from it.
        self.sources = [self.pipe, self.process.sentinel]

    @property
    def has_failed(self) -> bool:
        return self.is_over and (self.answer is None or self.answer.status != Status.ok)

    def read(self) -> None:
        """Reads the answer of the process. If the answer is missing or incomplete, the process has died."""
        self.is_over = True
        with contextlib.suppress(EOFError, OSError):
            if self.pipe.poll():
                self.answer = decode(Outcome, self.pipe.recv_bytes())

    def kill(self) -> None:
        # Kills the data workers of the process too. If the process has ended or has just started, there is no group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        if self.process.is_alive():
            self.process.kill()


class _Run:
    """A request that is running. It calls `send` with the outcome."""

    def __init__(self, request: Request, send: Callable[[str], None]) -> None:
        self.request, self.send = request, send
        self.ranks: list[_Rank] = []
        self.over: list[_Rank] = []  # ranks that have answered or died, in this order
        self.num_oom_kills = oom_kills()

    def run(self, context: Any) -> None:
        """Runs the request, and sends the outcome. Then waits until the processes of the request have ended."""
        staying = children(os.getpid())  # the forkserver and its resource tracker
        cell = self.request.cell
        num_processes = cell.num_processes if self.request.do == Do.run else 1
        num_gpus = cell.devices if cell.device == Device.gpu else 0
        busy_gpus = in_use(num_gpus)
        try:
            for environment in _environments(num_processes):
                self.ranks.append(_Rank(context, self.request, environment))
            first, *others = [rank.pid for rank in self.ranks]
            sampler = Sampler(first, num_gpus, others)
            sampler.sample()
            outcome = self._await(sampler)
            sampler.sample()  # even a very short cell has a sample at its start and one at its end
            measured = outcome.measurement
            if measured is None:  # the processes must have ended before the sweep reads their files
                self._end()
            steady_end_s = measured.steady_boot_s[1] if measured and measured.steady_boot_s else None
            system = sampler.series(outcome.peak_host_bytes, steady_end_s)
            self.send(encode(replace(outcome, system=replace(system, busy_gpus=busy_gpus))))
            if outcome.status == Status.ok:  # the processes end without being killed
                self._join()
        finally:  # memory and devices must be free before the next request
            self._end()
            end_orphans(staying)

    def _join(self) -> None:
        deadline = time.monotonic() + END_S
        for rank in self.ranks:
            rank.pipe.close()  # a process waits for this after its answer
            rank.process.join(max(0.0, deadline - time.monotonic()))

    def _end(self) -> None:
        for rank in self.ranks:
            rank.kill()
        self._join()

    def _await(self, sampler: Sampler) -> Outcome:
        """Samples the processes until rank 0 has answered, a rank has failed, or the time limit is over."""
        first = self.ranks[0]
        deadline = time.monotonic() + self.request.timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            self._read(min(PAUSE_S, left_s))
            if any(rank.has_failed for rank in self.over):
                return self._failure()
            if first.answer is not None:
                return first.answer
            sampler.sample()
        return self._timeout()

    def _read(self, timeout_s: float) -> bool:
        """Waits until a process of the cell sends a message or ends. Returns False if none does within `timeout_s`.

        If standard input is closed, this host exits.
        """
        running = [rank for rank in self.ranks if not rank.is_over]
        sources = [source for rank in running for source in rank.sources]
        stdin = sys.stdin.fileno()
        ready = connection.wait([*sources, stdin], max(0.0, timeout_s))
        for rank in running:
            if any(source in ready for source in rank.sources):
                rank.read()
                if rank.is_over:
                    self.over.append(rank)
        if stdin in ready:  # closed: no request comes while the host is busy
            sys.exit(0)
        return bool(ready)

    def _failure(self) -> Outcome:
        """Returns the outcome of a rank that has died. If none has died, returns that of the first rank that failed."""
        # If a rank dies, others fail because of it, and may report earlier. So the host waits for late reports.
        ranks = self.ranks
        deadline = time.monotonic() + LATE_S
        while len(self.over) < len(ranks) and self._read(deadline - time.monotonic()):
            pass
        died = [rank for rank in ranks if rank.is_over and rank.answer is None]
        rank = died[0] if died else next(rank for rank in self.over if rank.has_failed)
        failure = rank.answer
        if failure is None:
            rank.process.join(END_S)
            failure = death(
                rank.process.exitcode, oom_kills() - self.num_oom_kills, log_end(self.request.log)
            )
        # Skipped cells and mistakes of the user concern all ranks.
        if len(ranks) > 1 and failure.status != Status.skipped and not failure.user_error:
            number = ranks.index(rank)
            failure = replace(failure, reason=f"rank {number} of {len(ranks)}: {failure.reason}")
        return failure

    def _timeout(self) -> Outcome:
        """Returns the outcome of a cell that has reached its time limit, with the call stacks of its processes."""
        for rank in self.ranks:
            if rank.process.is_alive():  # otherwise, another process may have its id
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rank.pid, child.STACK_DUMP_SIGNAL)  # ends a process that has no handler yet
                    time.sleep(STACK_S)
        # The stack begins with the innermost call.
        printed, head, stack = log_end(self.request.log).partition(STACK)
        reason = f"no result within {self.request.timeout_s:g} s (timeout_s)"
        return Outcome(
            status=Status.timeout, reason=reason, error=printed[-HUNG_SIZE:] + head + stack[:HUNG_SIZE]
        )


def _environments(num: int) -> list[dict[str, str]]:
    """Returns the environment variables of each rank, as torchrun sets them. A single process gets none."""
    if num == 1:
        return [{}]
    with socket.socket() as probe:
        probe.bind((LOCALHOST, 0))
        port = probe.getsockname()[1]
    shared = {
        "MASTER_ADDR": LOCALHOST,
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(num),
        "LOCAL_WORLD_SIZE": str(num),
        "GROUP_RANK": "0",
        "GLOO_SOCKET_IFNAME": "lo",  # otherwise gloo resolves the machine's host name, which can fail
    }
    return [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(num)]


def death(exitcode: int | None, num_oom_kills: int, log: str) -> Outcome:
    """Returns the outcome of a process that ended without an answer.

    `num_oom_kills` is the number of processes that the kernel killed because memory ran out.
    """
    if exitcode == -signal.SIGKILL and num_oom_kills:
        status, reason = Status.oom, "killed by the kernel: out of memory"
    elif exitcode is not None and exitcode < 0:
        status = Status.killed
        reason = f"killed by signal {-exitcode} ({signal.Signals(-exitcode).name})"
    else:
        status = Status.failed
        reason = f"the process ended with exit code {exitcode} and without a result"
    return Outcome(status=status, reason=reason, error=log or None)


def log_end(path: str) -> str:
    """Returns the last `READ_BYTES` of a log; *** replaces secrets. Returns "" if the file does not exist."""
    with contextlib.suppress(OSError), open(path, "rb") as log:
        start = max(0, os.path.getsize(path) - READ_BYTES)
        log.seek(start)
        text = log.read(READ_BYTES).decode(errors="replace")
        if start:  # drops the first line, which may begin with the rest of a secret
            text = text.partition("\n")[2]
        return masked(text)
    return ""
