"""The host: a small process that owns one preloaded forkserver and runs requests from it, one at a time.

`hosts.Hosts` starts it. The first line on standard input lists the modules to preload; each further line is a request,
and gets its outcome as one line on the pipe of answers, after an empty one once nothing more is timed. A cell of
several processes has the answer of its rank 0, and ends as soon as a rank fails. The host ends with its standard input.
"""

import contextlib
import json
import multiprocessing as mp
import os
import re
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
from accelbench.isolation.messages import Outcome, Request, decode, encode
from accelbench.isolation.sampler import Sampler, children, end_orphans
from accelbench.lifeline import adopt_orphans
from accelbench.schema.secrets import masked
from accelbench.schema.vocab import Device, Status

# A process that has answered but does not exit, because a framework's thread hangs, is killed after this long.
END_S = 10.0
# After one process of a cell failed, how long to wait for the answers of the others.
LATE_S = 1.0
STACK_S = 0.3  # in which a hung process prints its call stack
LOCALHOST = "127.0.0.1"
READ_BYTES = 1 << 18  # of the end of a log, so that a secret at the edge of what is kept is seen whole, and masked
HUNG_SIZE = 1000  # characters of the output of a cell that hung: stacks say more
STACK = re.compile(r"^.*\(most recent call first\):$", re.MULTILINE)  # the first line of what faulthandler prints
STACK_CALLS = 12  # innermost calls of a stack that are kept


def main(answers: int) -> None:
    """Serves requests until standard input closes. `answers` is the descriptor of the pipe of answers."""
    outcomes = os.fdopen(answers, "w")
    context = mp.get_context("forkserver")
    adopt_orphans()
    context.set_forkserver_preload(json.loads(sys.stdin.readline()))
    forkserver.ensure_running()  # starts its imports now, before the first request

    def answer(line: str) -> None:
        outcomes.write(f"{line}\n")
        outcomes.flush()

    for line in sys.stdin:
        forkserver.ensure_running()  # starts another one if it has died
        _Run(decode(Request, line), answer).run(context)


class _Rank:
    """One process of a request, and the pipe by which it reports that nothing more is timed, and then its answer."""

    is_timing = True
    is_over = False  # whether it has answered or died
    answer: Outcome | None = None

    def __init__(self, context: Any, request: Request, environment: dict[str, str]) -> None:
        self.pipe, there = context.Pipe()
        self.process = context.Process(target=child.main, args=(request, environment, there), daemon=False)
        self.process.start()
        there.close()
        self.pid: int = self.process.pid  # it is also the id of its process group
        # Its end too: what was forked from it may keep the pipe open.
        self.sources = [self.pipe, self.process.sentinel]

    @property
    def has_failed(self) -> bool:
        return self.is_over and (self.answer is None or self.answer.status != Status.ok)

    def read(self) -> None:
        """Reads what it has reported. If that is nothing, or only a part, it has died."""
        try:
            message = self.pipe.recv_bytes() if self.pipe.poll() else b""
        except (EOFError, OSError):
            message = b""
        if message == child.DONE:
            self.is_timing = False
            return
        self.is_over = True
        if message:
            self.answer = decode(Outcome, message)

    def kill(self) -> None:
        # Its data workers too. There is no group if the process has ended, or has only just started.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        if self.process.is_alive():
            self.process.kill()


class _Run:
    """A request while its processes run. `send` gets an empty line if nothing more is timed, and then the outcome."""

    def __init__(self, request: Request, send: Callable[[str], None]) -> None:
        self.request, self.send = request, send
        self.ranks: list[_Rank] = []
        self.over: list[_Rank] = []  # those that have answered or died, in this order
        self.num_oom_kills = oom_kills()

    def run(self, context: Any) -> None:
        """Answers; the processes end while the sweep goes on, and before the next request."""
        staying = children(os.getpid())  # the forkserver and its resource tracker
        cell = self.request.cell
        num_gpus = cell.devices if cell.device == Device.gpu else 0
        busy_gpus = in_use(num_gpus)
        try:
            for environment in _environments(self.request.num_processes):
                self.ranks.append(_Rank(context, self.request, environment))
            first, *others = [rank.pid for rank in self.ranks]
            sampler = Sampler(first, num_gpus, others)
            sampler.sample()
            outcome = self._await(sampler)
            sampler.sample()  # however short it was, its begin and its end are seen
            measured = outcome.measurement
            if measured is None:  # before the sweep reads what they kept
                self._end()
            steady_end_s = measured.steady_boot_s[1] if measured and measured.steady_boot_s else None
            system = sampler.series(outcome.peak_host_bytes, steady_end_s)
            self.send(encode(replace(outcome, system=replace(system, busy_gpus=busy_gpus))))
            if outcome.status == Status.ok:  # they end by themselves
                self._join()
        finally:  # their memory and device must be free before the next request
            self._end()
            end_orphans(staying)

    def _join(self) -> None:
        deadline = time.monotonic() + END_S
        for rank in self.ranks:
            rank.pipe.close()  # a process that has answered waits for this
            rank.process.join(max(0.0, deadline - time.monotonic()))

    def _end(self) -> None:
        for rank in self.ranks:
            rank.kill()
        self._join()

    def _await(self, sampler: Sampler) -> Outcome:
        """Samples until rank 0 has answered, any rank has failed, or the time limit is over."""
        first = self.ranks[0]
        deadline = time.monotonic() + self.request.timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            was_timing = first.is_timing
            self._read(min(sampler.pause_s, left_s), sys.stdin.fileno())
            if any(rank.has_failed for rank in self.over):
                return self._failure()
            if first.answer is not None:
                return first.answer
            if was_timing and not first.is_timing:
                self.send("")
            sampler.sample()
        return self._timeout()

    def _read(self, timeout_s: float, *stdin: int) -> bool:
        """Waits for a report of a process that runs; whether one came. Ends the host if `stdin` has closed."""
        running = [rank for rank in self.ranks if not rank.is_over]
        sources = [source for rank in running for source in rank.sources]
        ready = connection.wait([*sources, *stdin], max(0.0, timeout_s))
        for rank in running:
            if any(source in ready for source in rank.sources):
                rank.read()
                if rank.is_over:
                    self.over.append(rank)
        if any(source in ready for source in stdin):  # no request comes while the host is busy
            sys.exit(0)
        return bool(ready)

    def _failure(self) -> Outcome:
        """The failure of a rank: of one that died if there is one, else of the first that failed."""
        # Ranks fail because another one died, and may report first: late answers are waited for.
        deadline = time.monotonic() + LATE_S
        while len(self.over) < len(self.ranks) and self._read(deadline - time.monotonic()):
            pass
        died = [rank for rank in self.ranks if rank.is_over and rank.answer is None]
        rank = died[0] if died else next(rank for rank in self.over if rank.has_failed)
        failure = rank.answer
        if failure is None:
            rank.process.join(END_S)
            failure = death(rank.process.exitcode, oom_kills() - self.num_oom_kills, log_end(self.request.log))
        if len(self.ranks) > 1 and failure.status != Status.skipped and not failure.user_error:  # of no single rank
            number = self.ranks.index(rank)
            failure = replace(failure, reason=f"rank {number} of {len(self.ranks)}: {failure.reason}")
        return failure

    def _timeout(self) -> Outcome:
        for rank in self.ranks:
            if rank.process.is_alive():  # the id of an ended process may be another one's by now
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rank.pid, child.STACK_DUMP_SIGNAL)  # it ends a process that has no handler yet
                    time.sleep(STACK_S)
        printed, *stacks = STACK.split(log_end(self.request.log))
        parts = [printed.strip()[-HUNG_SIZE:]]
        for stack in stacks:
            parts.append("\n".join(stack.strip().splitlines()[:STACK_CALLS]))
        reason = f"no result within {self.request.timeout_s:g} s (timeout_s)"
        return Outcome(status=Status.timeout, reason=reason, error="\nIt was here:\n".join(parts).strip())


def _environments(num: int) -> list[dict[str, str]]:
    """The variables of each rank, as launchers such as torchrun set them; a single process needs none."""
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
        "GLOO_SOCKET_IFNAME": "lo",  # else gloo resolves the machine's host name, which can fail
    }
    return [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(num)]


def death(exitcode: int | None, num_oom_kills: int, log: str) -> Outcome:
    """How a process ended that gave no answer."""
    if exitcode == -signal.SIGKILL and num_oom_kills:
        status, reason = Status.oom, "killed by the kernel: out of memory"
    elif exitcode is not None and exitcode < 0:
        status = Status.killed
        reason = f"killed by signal {-exitcode} ({signal.Signals(-exitcode).name})"
    else:
        status = Status.failed
        reason = f"its process ended with exit code {exitcode} and no result"
    return Outcome(status=status, reason=reason, error=log or None)


def log_end(path: str) -> str:
    """The end of a log, longer than what an `Outcome` keeps, with *** for secrets; empty if it is gone."""
    with contextlib.suppress(OSError), open(path, "rb") as log:
        start = max(0, os.path.getsize(path) - READ_BYTES)
        log.seek(start)
        text = log.read(READ_BYTES).decode(errors="replace")
        if start:  # the first word may be the rest of a secret
            text = text.partition("\n")[2]
        return masked(text)
    return ""
