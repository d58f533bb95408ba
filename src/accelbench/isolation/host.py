"""The host: a small process that owns one preloaded forkserver and runs requests from it, one at a time.

`hosts.Hosts` starts it. The first line on standard input is the list of modules to preload; each further line is a
request (`messages.Request`) and gets one line on standard output, its `messages.Outcome`. An empty line before that one
says that nothing more is timed: the sweep may use the machine meanwhile. A cell of several processes has the answer of
the first one, its rank 0, and ends as soon as any rank fails. When standard input closes, the host kills what runs and
exits.
"""

import contextlib
import json
import multiprocessing as mp
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import connection, forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from accelbench.isolation import child
from accelbench.isolation.messages import CellRequest, Outcome, Reply, Request, decode, decode_request, encode
from accelbench.isolation.processes import children, end_orphans
from accelbench.isolation.sampler import Sampler
from accelbench.isolation.witness import Witness
from accelbench.judging.asked import host_checks, host_warnings, judge
from accelbench.lifeline import adopt_orphans
from accelbench.measuring.witness import Moment
from accelbench.schema.conditions import Witnessed
from accelbench.schema.secrets import masked
from accelbench.schema.vocab import Status

# A process that has answered but does not exit, because a framework's thread hangs, is killed after this long.
END_S = 10.0
# After one process of a cell failed, how long to wait for the answers of the others.
LATE_S = 1.0
# How long to wait for the first bytes of a hung process's call stack, and between two parts of it.
STACK_S = 0.5
MAX_WORD = 32  # bytes of what a process says
STACK_CALLS = 12  # innermost calls of a stack that are kept
LOCALHOST = "127.0.0.1"
ERROR_SIZE = 4000  # characters of the end of a cell's output, which become its error
READ_BYTES = 1 << 18  # of the end of a log, so that a secret at the edge of what is kept is seen whole, and masked
HUNG_SIZE = 1000  # of the end of the output of a cell that hung: stacks say more
# The statuses of processes that did their work: they end by themselves.
GOOD = (Status.ok, Status.invalid)


def main() -> None:
    """Serves requests until standard input closes."""
    # A copy of standard output that no library prints to.
    outcomes = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    context = mp.get_context("forkserver")
    adopt_orphans()
    context.set_forkserver_preload(json.loads(sys.stdin.readline()))
    forkserver.ensure_running()  # starts its imports now, before the first request

    def answer(outcome: Outcome | None) -> None:
        outcomes.write(f"{'' if outcome is None else encode(outcome)}\n")
        outcomes.flush()

    for line in sys.stdin:
        _run(context, decode_request(line), answer)


@dataclass(frozen=True)
class _Rank:
    """One process of a request, and the pipes that its answer and its call stack come by; `timed` see `child.main`."""

    process: ForkServerProcess
    answers: "connection.Connection[bytes, bytes]"
    stack: "connection.Connection[bytes, bytes]"
    timed: "connection.Connection[bytes, bytes]"

    @property
    def pid(self) -> int:
        # It is also the id of its process group.
        assert self.process.pid is not None
        return self.process.pid

    def read(self) -> Reply | None:
        """The answer, if the pipe is readable; None if the process died, perhaps while it wrote."""
        try:
            return decode(Reply, self.answers.recv_bytes())
        except (EOFError, OSError):
            return None
        except (ValueError, KeyError, TypeError) as error:  # of code that writes to the pipe itself
            return Reply(status=Status.failed, reason=f"its process gave an answer that is none ({error})")

    def hear(self) -> str | None:
        """What the process says, if the pipe is readable; None if it will say nothing more."""
        try:
            return self.timed.recv_bytes(MAX_WORD).decode(errors="replace")
        except (EOFError, OSError):
            return None

    def read_stack(self) -> str:
        """The call stack after `STACK_DUMP_SIGNAL`, innermost call last; empty if the process writes none."""
        written = b""
        while connection.wait([self.stack], STACK_S) and (part := os.read(self.stack.fileno(), 1 << 16)):
            written += part
        calls = [line for line in written.decode(errors="replace").splitlines() if line.startswith("  File ")]
        return "\n".join(reversed(calls[:STACK_CALLS]))

    def kill(self) -> None:
        # Its data workers too. There is no group if the process has ended, or has only just started.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        if self.process.is_alive():
            self.process.kill()


# The answers so far, by rank; None for a process that died without one.
Replies = dict[int, Reply | None]


def _run(context: Any, request: Request, answer: Callable[[Outcome | None], None]) -> None:
    """Runs a request; its processes end while the sweep goes on, and before the next request.

    `answer` gets None if nothing more is timed, and then the outcome.
    """
    num_oom_kills = oom_kills()
    forkserver.ensure_running()  # starts another one if it has died
    own = children(os.getpid())
    ranks: list[_Rank] = []
    start = time.monotonic()
    try:
        for environment in _environments(request.num_processes):
            ranks.append(_start(context, request, environment))
        sampler = Sampler(ranks[0].pid, num_gpus=request.num_gpus, others=[rank.pid for rank in ranks[1:]])
        witness = Witness(ranks[0].pid)
        answers = _await(ranks, sampler, witness, request.timeout_s, lambda: answer(None))
        seen = witness.witnessed()
        result = _judged(_result(ranks, answers, request, num_oom_kills), request, seen)
        answer(
            Outcome(
                status=result.status,
                reason=result.reason,
                error=result.error,
                user_error=result.user_error,
                measurement=result.measurement,
                ceilings=result.ceilings,
                system=sampler.series(result.peak_host_bytes, result.until_boot_s),
                witnessed=None if result.measurement is None else seen,
                took_s=time.monotonic() - start,
            )
        )
        if result.status in GOOD:
            _join(ranks)
    finally:
        _end(ranks, own)


def _result(ranks: Sequence[_Rank], answers: Replies | None, request: Request, num_before: int) -> Reply:
    if answers is None:
        reason = f"no result within {request.timeout_s:g} s (timeout_s)"
        error = "\n".join([log_end(request.log, HUNG_SIZE).strip(), *_hung(ranks)]).strip()
        return Reply(status=Status.timeout, reason=reason, error=error)
    answer = answers.get(0)
    if answer is None or not all(map(_is_good, answers.values())):
        return _failure(ranks, _with_late(ranks, answers), num_before, request.log)
    return answer


def _judged(answer: Reply, request: Request, seen: Witnessed) -> Reply:
    """The answer with the status that its measurement deserves: the process that gave it has run the user's code."""
    if answer.measurement is None or not isinstance(request, CellRequest):
        return answer
    known = seen if request.says_when else None
    defect = judge(request.cell, answer.measurement, known)
    checks = [*answer.measurement.checks, *host_checks(request.cell, answer.measurement, known)]
    warnings = [*answer.measurement.warnings, *host_warnings(request.cell, answer.measurement, known)]
    measurement = replace(answer.measurement, checks=checks, warnings=warnings)
    return replace(answer, status=Status.invalid if defect else Status.ok, reason=defect, measurement=measurement)


def _end(ranks: Sequence[_Rank], own: Collection[int]) -> None:
    """Ends the processes of a request: their memory and device must be free before the next one."""
    for rank in ranks:
        rank.kill()
    _join(ranks)
    end_orphans(own)
    for rank in ranks:
        for pipe in (rank.answers, rank.stack, rank.timed):
            pipe.close()


def _join(ranks: Sequence[_Rank]) -> None:
    deadline = time.monotonic() + END_S
    for rank in ranks:
        rank.process.join(max(0.0, deadline - time.monotonic()))


def _start(context: Any, request: Request, environment: dict[str, str]) -> _Rank:
    answers, to_answers = context.Pipe(duplex=False)
    stack, to_stack = context.Pipe(duplex=False)
    timed, to_timed = context.Pipe(duplex=False)
    arguments = (request, environment, to_answers, to_stack, to_timed)
    process: ForkServerProcess = context.Process(target=child.main, args=arguments, daemon=False)
    process.start()
    for pipe in (to_answers, to_stack, to_timed):
        pipe.close()
    return _Rank(process, answers, stack, timed)


def _environments(num: int) -> list[dict[str, str]]:
    """The variables of each rank, as launchers such as torchrun set them; a single process needs none."""
    if num == 1:
        return [{}]
    with socket.socket() as probe:
        probe.bind((LOCALHOST, 0))
        port = probe.getsockname()[1]
    shared = {"MASTER_ADDR": LOCALHOST, "MASTER_PORT": str(port), "WORLD_SIZE": str(num)}
    shared |= {"LOCAL_WORLD_SIZE": str(num), "GROUP_RANK": "0"}
    if Path("/sys/class/net/lo").exists():  # else gloo resolves the machine's host name, which can fail
        shared["GLOO_SOCKET_IFNAME"] = "lo"
    return [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(num)]


def _await(
    ranks: Sequence[_Rank], sampler: Sampler, witness: Witness, timeout_s: float, say_timed: Callable[[], None]
) -> Replies | None:
    """The answers once rank 0 has answered or any rank has failed; None after `timeout_s`. Samples meanwhile.

    Calls `say_timed` when nothing more is timed in rank 0, which then has dismissed the others.
    """
    stdin, timed = sys.stdin.fileno(), [ranks[0].timed]
    deadline = time.monotonic() + timeout_s
    answers: Replies = {}
    while (left := deadline - time.monotonic()) > 0:
        pipes = {rank.answers: index for index, rank in enumerate(ranks) if index not in answers}
        before, pause_s = time.monotonic(), min(sampler.pause_s, left)
        ready = connection.wait([*pipes, *timed, stdin], timeout=pause_s)
        witness.woke_late(time.monotonic() - before - pause_s)
        if ranks[0].timed in ready and (moment := ranks[0].hear()) != Moment.done:
            if moment is None:
                timed.clear()
            else:
                witness.hear(moment)
            continue
        answered = [index for pipe, index in pipes.items() if pipe in ready]
        answers |= {index: ranks[index].read() for index in answered}
        if 0 in answers or not all(map(_is_good, answers.values())):
            return answers
        if stdin in ready:  # standard input has closed: no request comes while the host is busy
            sys.exit(0)
        if ranks[0].timed in ready:
            timed.clear()
            say_timed()
        sampler.sample()
    return None


def _is_good(answer: Reply | None) -> bool:
    return answer is not None and answer.status in GOOD


def _with_late(ranks: Sequence[_Rank], answers: Replies) -> Replies:
    """`answers` and those that come within `LATE_S`: ranks fail because another one died, and may report first."""
    deadline = time.monotonic() + LATE_S
    for index, rank in enumerate(ranks):
        if index not in answers:
            left = max(0.0, deadline - time.monotonic())
            if connection.wait([rank.answers, rank.process.sentinel], left):
                answers = {**answers, index: rank.read() if rank.answers.poll() else None}
    return answers


def _failure(ranks: Sequence[_Rank], answers: Replies, num_before: int, log: str) -> Reply:
    """Why a request failed: the death of a process if there is one, else the earliest failure."""
    dead = [index for index, answer in answers.items() if answer is None]
    failed = {index: answer for index, answer in answers.items() if answer is not None and not _is_good(answer)}
    if dead:
        index = dead[0]
        ranks[index].process.join(END_S)
        failure = death(ranks[index].process.exitcode, oom_kills() - num_before, log_end(log))
    else:
        index = min(failed, key=lambda rank: failed[rank].ended_s or 0.0)
        failure = failed[index]
    if len(ranks) > 1 and failure.status != Status.skipped and not failure.user_error:  # which are no single rank's
        failure = replace(failure, reason=f"rank {index} of {len(ranks)}: {failure.reason}")
    return failure


def _hung(ranks: Sequence[_Rank]) -> Iterator[str]:
    """Where each process hangs. The signal that asks kills a process that has no handler yet."""
    for rank in ranks:
        if rank.process.is_alive():  # the id of an ended process may be another one's by now
            with contextlib.suppress(ProcessLookupError):
                os.kill(rank.pid, child.STACK_DUMP_SIGNAL)
    for index, rank in enumerate(ranks):
        name = f"rank {index} of {len(ranks)}" if len(ranks) > 1 else "It"
        if calls := rank.read_stack():
            yield f"{name} was here:"
            yield calls
        else:
            yield f"{name} gave no call stack" if rank.process.is_alive() else f"{name} had ended"


def death(exitcode: int | None, num_oom_kills: int, log: str) -> Reply:
    """How a process ended that gave no answer."""
    if exitcode == -signal.SIGKILL and num_oom_kills:
        status, reason = Status.oom, "killed by the kernel: out of memory"
    elif exitcode is not None and exitcode < 0:
        status, reason = Status.killed, f"killed by signal {-exitcode} ({signal.Signals(-exitcode).name})"
    else:
        status, reason = Status.failed, f"its process ended with exit code {exitcode} and no result"
    return Reply(status=status, reason=reason, error=log or None)


def oom_kills() -> int:
    """Processes that the kernel killed for memory since the machine started; 0 if it does not count them."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


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
