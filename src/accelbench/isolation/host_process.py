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
from accelbench.isolation.processes import Sampler, children, end_orphans
from accelbench.judging.verdict import judge
from accelbench.lifeline import adopt_orphans
from accelbench.schema.secrets import masked
from accelbench.schema.vocab import Device, Status

# A process that has answered but does not exit, because a framework's thread hangs, is killed after this long.
END_S = 10.0
# After one process of a cell failed, how long to wait for the answers of the others.
LATE_S = 1.0
STACK_S = 0.3  # in which a hung process prints its call stack
LOCALHOST = "127.0.0.1"
ERROR_SIZE = 4000  # characters of the end of a cell's output, which become its error
READ_BYTES = 1 << 18  # of the end of a log, so that a secret at the edge of what is kept is seen whole, and masked
HUNG_SIZE = 1000  # of the end of the output of a cell that hung: stacks say more
STACK = re.compile(r"^.*\(most recent call first\):$", re.MULTILINE)  # the first line of what faulthandler prints
STACK_CALLS = 12  # innermost calls of a stack that are kept
# The statuses of processes that did their work: they end by themselves.
GOOD = (Status.ok, Status.invalid)


def main(answers: int) -> None:
    """Serves requests until standard input closes. `answers` is the descriptor of the pipe of answers."""
    outcomes = os.fdopen(answers, "w")
    context = mp.get_context("forkserver")
    adopt_orphans()
    context.set_forkserver_preload(json.loads(sys.stdin.readline()))
    forkserver.ensure_running()  # starts its imports now, before the first request

    def answer(outcome: Outcome | None) -> None:
        outcomes.write(f"{'' if outcome is None else encode(outcome)}\n")
        outcomes.flush()

    for line in sys.stdin:
        _Run(decode(Request, line), answer).run(context)


class _Rank:
    """One process of a request, and the pipe by which it reports that nothing more is timed, and then its answer."""

    def __init__(self, context: Any, request: Request, environment: dict[str, str]) -> None:
        self.pipe, there = context.Pipe()
        self.process = context.Process(target=child.main, args=(request, environment, there), daemon=False)
        self.process.start()
        there.close()
        self.pid: int = self.process.pid  # it is also the id of its process group
        # Its end too: what was forked from it may keep the pipe open.
        self.sources = self.pipe, self.process.sentinel

    def read(self) -> bytes | Outcome | None:
        """`DONE` or the answer, once one came or the process ended; None if it died, perhaps while it wrote."""
        try:
            if not self.pipe.poll():
                return None
            said = self.pipe.recv_bytes()
            return said if said == child.DONE else decode(Outcome, said)
        except (EOFError, OSError):
            return None

    def kill(self) -> None:
        # Its data workers too. There is no group if the process has ended, or has only just started.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        if self.process.is_alive():
            self.process.kill()


class _Run:
    """A request while its processes run. `answer` gets None if nothing more is timed, and then the outcome."""

    def __init__(self, request: Request, answer: Callable[[Outcome | None], None]) -> None:
        self.request, self.answer = request, answer
        self.ranks: list[_Rank] = []
        self.answers: dict[int, Outcome | None] = {}  # so far, by rank; None for a process that died without one
        self.num_oom_kills = oom_kills()

    def run(self, context: Any) -> None:
        """Answers; the processes end while the sweep goes on, and before the next request."""
        forkserver.ensure_running()  # starts another one if it has died
        own = children(os.getpid())
        num_gpus = self.request.cell.devices if self.request.cell.device == Device.gpu else 0
        busy_gpus = in_use(num_gpus)
        try:
            for environment in _environments(self.request.num_processes):
                self.ranks.append(_Rank(context, self.request, environment))
            first, *others = [rank.pid for rank in self.ranks]
            sampler = Sampler(first, num_gpus, others)
            sampler.sample()
            has_answered = self._await(sampler)
            sampler.sample()  # however short it was, its begin and its end are seen
            result = self._judged(self._result() if has_answered else self._timeout())
            if result.measurement is None:  # before the sweep reads what they kept
                for rank in self.ranks:
                    rank.kill()
                self._join()
            steady_boot_s = result.measurement.steady_boot_s if result.measurement else None
            system = sampler.series(result.peak_host_bytes, steady_boot_s[1] if steady_boot_s else None)
            self.answer(replace(result, system=replace(system, busy_gpus=busy_gpus)))
            if result.status in GOOD:
                self._join()
        finally:  # their memory and device must be free before the next request
            for rank in self.ranks:
                rank.kill()
            self._join()
            end_orphans(own)

    def _join(self) -> None:
        deadline = time.monotonic() + END_S
        for rank in self.ranks:
            rank.pipe.close()  # a process that has answered waits for this
            rank.process.join(max(0.0, deadline - time.monotonic()))

    def _await(self, sampler: Sampler) -> bool:
        """Samples until rank 0 has answered or any rank has failed; False after the time limit."""
        stdin, deadline = sys.stdin.fileno(), time.monotonic() + self.request.timeout_s
        times = True  # whether the first rank still times something
        while (left := deadline - time.monotonic()) > 0:
            waits = {index: rank for index, rank in enumerate(self.ranks) if index not in self.answers}
            pause_s = min(sampler.pause_s, left)
            sources = [source for rank in waits.values() for source in rank.sources]
            ready = set(connection.wait([*sources, stdin], timeout=pause_s))
            said = {index: rank.read() for index, rank in waits.items() if not ready.isdisjoint(rank.sources)}
            done = [index for index, each in said.items() if isinstance(each, bytes)]
            self.answers |= {index: each for index, each in said.items() if not isinstance(each, bytes)}
            if 0 in self.answers or not self._is_good:
                return True
            if stdin in ready:  # standard input has closed: no request comes while the host is busy
                sys.exit(0)
            if 0 in done and times:
                times = False
                self.answer(None)
            if not done:
                sampler.sample()
        return False

    @property
    def _is_good(self) -> bool:
        """Whether no rank has failed so far."""
        return all(answer is not None and answer.status in GOOD for answer in self.answers.values())

    def _result(self) -> Outcome:
        """The answer of rank 0, or the failure of a rank: of one that died if there is one, else the first."""
        # Ranks fail because another one died, and may report first: late answers are waited for.
        answer = self.answers.get(0)
        if answer is not None and self._is_good:
            return answer
        deadline = time.monotonic() + LATE_S
        for index, rank in enumerate(self.ranks):
            while index not in self.answers and connection.wait(rank.sources, max(0.0, deadline - time.monotonic())):
                if not isinstance(said := rank.read(), bytes):
                    self.answers[index] = said
                elif time.monotonic() > deadline:
                    break
        failed = {index: each for index, each in self.answers.items() if each is not None and each.status not in GOOD}
        if dead := [index for index, each in self.answers.items() if each is None]:
            index, process = dead[0], self.ranks[dead[0]].process
            process.join(END_S)
            failure = death(process.exitcode, oom_kills() - self.num_oom_kills, log_end(self.request.log))
        else:
            index, failure = next(iter(failed.items()))  # in the order in which they came
        if len(self.ranks) > 1 and failure.status != Status.skipped and not failure.user_error:  # of no single rank
            failure = replace(failure, reason=f"rank {index} of {len(self.ranks)}: {failure.reason}")
        return failure

    def _timeout(self) -> Outcome:
        for rank in self.ranks:
            if rank.process.is_alive():  # the id of an ended process may be another one's by now
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rank.pid, child.STACK_DUMP_SIGNAL)  # it ends a process that has no handler yet
                    time.sleep(STACK_S)
        reason = f"no result within {self.request.timeout_s:g} s (timeout_s)"
        printed, *stacks = STACK.split(log_end(self.request.log, READ_BYTES))
        innermost = ["\n".join(stack.strip().splitlines()[:STACK_CALLS]) for stack in stacks]
        error = "\nIt was here:\n".join([printed.strip()[-HUNG_SIZE:], *innermost]).strip()
        return Outcome(status=Status.timeout, reason=reason, error=error)

    def _judged(self, answer: Outcome) -> Outcome:
        """The answer with the status that its measurement deserves."""
        if answer.measurement is None:
            return answer
        defect = judge(self.request.cell, answer.measurement)
        return replace(answer, status=Status.invalid if defect else Status.ok, reason=defect)


def _environments(num: int) -> list[dict[str, str]]:
    """The variables of each rank, as launchers such as torchrun set them; a single process needs none."""
    if num == 1:
        return [{}]
    with socket.socket() as probe:
        probe.bind((LOCALHOST, 0))
        port = probe.getsockname()[1]
    shared = {"MASTER_ADDR": LOCALHOST, "MASTER_PORT": str(port), "WORLD_SIZE": str(num)}
    shared |= {"LOCAL_WORLD_SIZE": str(num), "GROUP_RANK": "0"}
    shared |= {"GLOO_SOCKET_IFNAME": "lo"}  # else gloo resolves the machine's host name, which can fail
    return [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(num)]


def death(exitcode: int | None, num_oom_kills: int, log: str) -> Outcome:
    """How a process ended that gave no answer."""
    if exitcode == -signal.SIGKILL and num_oom_kills:
        status, reason = Status.oom, "killed by the kernel: out of memory"
    elif exitcode is not None and exitcode < 0:
        status, reason = Status.killed, f"killed by signal {-exitcode} ({signal.Signals(-exitcode).name})"
    else:
        status, reason = Status.failed, f"its process ended with exit code {exitcode} and no result"
    return Outcome(status=status, reason=reason, error=log or None)


def log_end(path: str, size: int = ERROR_SIZE) -> str:
    """The last characters of a log, with *** for secrets; empty if it is gone."""
    with contextlib.suppress(OSError), open(path, "rb") as log:
        start = max(0, os.path.getsize(path) - READ_BYTES)
        log.seek(start)
        text = log.read(READ_BYTES).decode(errors="replace")
        if start:  # the first word may be the rest of a secret
            text = text.partition("\n")[2]
        return masked(text)[-size:]
    return ""
