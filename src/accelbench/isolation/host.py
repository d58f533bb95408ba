"""The host: a small process that owns one preloaded forkserver and runs cells from it, one at a time.

`isolate.Hosts` starts it. The first line on standard input is the list of modules to preload, each further line a
request (`worker.main`, plus `timeout_s`, `num_gpus` and `num_processes`). Each request gets one line on standard
output: the worker's answer, or how the process died, and the samples. A cell of several processes is answered for by
the first, its rank 0, and ended by the first that fails.
When standard input closes, the host kills what runs and ends.
"""

import contextlib
import json
import multiprocessing as mp
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing import connection, forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from accelbench.isolation import child
from accelbench.isolation.sampler import Sampler
from accelbench.schema.vocab import Status

SAMPLE_S = 0.1
# A cell that answered but does not end, since a thread of a framework hangs, is ended after this long.
END_S = 10.0
# How long further processes of a failed cell are listened to.
LATE_S = 1.0
# How long a hung process may take to begin to tell where it hangs, and to go on; the calls that are kept of it.
STACK_S = 0.5
STACK_CALLS = 12
LOCALHOST = "127.0.0.1"
# The end of what a cell printed that is kept, where it died, and where it hung and tells more itself.
ERROR_BYTES = 4000
HUNG_BYTES = 1000


def main() -> None:
    """Serves requests until standard input closes."""
    # Whatever a library prints must not get between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(json.loads(sys.stdin.readline()))
    forkserver.ensure_running()  # its imports begin now, and not with the first request
    for line in sys.stdin:
        answers.write(json.dumps(_run(context, json.loads(line))) + "\n")
        answers.flush()


@dataclass(frozen=True)
class _Rank:
    """One process of a cell, the pipe that its answer comes by, and that of where it hangs."""

    process: ForkServerProcess
    receive: "connection.Connection[Any, Any]"
    stack: "connection.Connection[Any, Any]"

    @property
    def pid(self) -> int:
        """Its process id, which is its group's too."""
        assert self.process.pid is not None
        return self.process.pid

    def read(self) -> dict[str, Any] | None:
        """Its answer, once there is something to read; None where it died, perhaps in the middle of it."""
        try:
            answer: dict[str, Any] = json.loads(self.receive.recv_bytes())
        except (EOFError, OSError):
            return None
        return answer

    def where(self) -> str:
        """The calls that it was in at `STACK_DUMP_SIGNAL`, innermost last; empty where it does not tell."""
        told = b""
        while connection.wait([self.stack], STACK_S) and (part := os.read(self.stack.fileno(), 1 << 16)):
            told += part
        calls = [line for line in told.decode(errors="replace").splitlines() if line.startswith("  File ")]
        return "\n".join(reversed(calls[:STACK_CALLS]))

    def kill(self) -> None:
        """Ends it with its data workers."""
        # The group is gone where the process ended well, or is not yet one where it has just started.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        if self.process.is_alive():
            self.process.kill()


# The answers that there are, by rank; None for a process that died without one.
Answers = dict[int, dict[str, Any] | None]


def _run(context: Any, request: dict[str, Any]) -> dict[str, Any]:
    oom_kills = _oom_kills()
    ranks = [_start(context, {**request, "environment": its}) for its in _environments(request["num_processes"])]
    sampler = Sampler(ranks[0].pid, num_gpus=request["num_gpus"], others=[rank.pid for rank in ranks[1:]])
    answers = _await(ranks, sampler, request["timeout_s"])
    if answers is None:
        reason = f"no result within {request['timeout_s']:g} s (timeout_s)"
        error = "\n".join([_log_end(request["log"], HUNG_BYTES).strip(), *_hung(ranks)]).strip()
        outcome: dict[str, Any] = {"status": Status.timeout, "reason": reason, "error": error}
    elif (answer := answers.get(0)) is not None and _is_good(answer) and all(map(_is_good, answers.values())):
        outcome = answer
        deadline = time.monotonic() + END_S
        for rank in ranks:
            rank.process.join(max(0.0, deadline - time.monotonic()))
    else:
        outcome = _failure(ranks, _with_late(ranks, answers), oom_kills, request["log"])
    for rank in ranks:
        rank.kill()
    for rank in ranks:
        rank.process.join(END_S)  # gone, and its memory and device free, before the next cell starts
        rank.receive.close()
        rank.stack.close()
    series = sampler.series(outcome.pop("peak_host_bytes", None), outcome.pop("until_boot_s", None))
    return {**outcome, "system": asdict(series)}


def _start(context: Any, request: dict[str, Any]) -> _Rank:
    receive, answer = context.Pipe(duplex=False)
    stack, its_stack = context.Pipe(duplex=False)
    process: ForkServerProcess = context.Process(target=child.main, args=(request, answer, its_stack), daemon=False)
    process.start()
    answer.close()
    its_stack.close()
    return _Rank(process, receive, stack)


def _environments(num: int) -> list[dict[str, str]]:
    """Each rank's variables, as launchers of several processes set them; none for one alone."""
    if num == 1:
        return [{}]
    with socket.socket() as probe:
        probe.bind((LOCALHOST, 0))
        port = probe.getsockname()[1]
    shared = {"MASTER_ADDR": LOCALHOST, "MASTER_PORT": str(port), "WORLD_SIZE": str(num)}
    shared |= {"LOCAL_WORLD_SIZE": str(num), "GROUP_RANK": "0"}
    if Path("/sys/class/net/lo").exists():  # else gloo looks for the machine's own name, which not every network knows
        shared["GLOO_SOCKET_IFNAME"] = "lo"
    return [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(num)]


def _await(ranks: Sequence[_Rank], sampler: Sampler, timeout_s: float) -> Answers | None:
    """The answers once rank 0's is there or any rank failed; None where the time was up. Samples meanwhile."""
    deadline = time.monotonic() + timeout_s
    answers: Answers = {}
    while (left := deadline - time.monotonic()) > 0:
        pipes = {rank.receive: index for index, rank in enumerate(ranks) if index not in answers}
        ready = connection.wait([*pipes, sys.stdin.fileno()], timeout=min(SAMPLE_S, left))
        told = [index for pipe, index in pipes.items() if pipe in ready]
        answers |= {index: ranks[index].read() for index in told}
        if 0 in answers or not all(map(_is_good, answers.values())):
            return answers
        if ready and not told:  # nobody writes to a busy host: standard input is at its end
            for rank in ranks:
                rank.kill()
            sys.exit(0)
        sampler.sample()
    return None


def _is_good(answer: dict[str, Any] | None) -> bool:
    return answer is not None and answer["status"] in (Status.ok, Status.invalid)


def _with_late(ranks: Sequence[_Rank], answers: Answers) -> Answers:
    """The same with those that come a moment later: a process that dies takes others along, who may be heard first."""
    deadline = time.monotonic() + LATE_S
    for index, rank in enumerate(ranks):
        if index not in answers:
            left = max(0.0, deadline - time.monotonic())
            if connection.wait([rank.receive, rank.process.sentinel], left):
                answers = {**answers, index: rank.read() if rank.receive.poll() else None}
    return answers


def _failure(ranks: Sequence[_Rank], answers: Answers, oom_kills: int, log: str) -> dict[str, Any]:
    """Why a cell failed: what came first, the death of a process or the earliest failure that was told."""
    dead = [index for index, answer in answers.items() if answer is None]
    told = {index: answer for index, answer in answers.items() if answer is not None and not _is_good(answer)}
    if dead:
        index = dead[0]
        ranks[index].process.join(END_S)
        outcome = _death(ranks[index].process.exitcode, _oom_kills() - oom_kills, _log_end(log))
    else:
        index = min(told, key=lambda each: told[each]["ended_s"])
        outcome = told[index]
    if len(ranks) > 1 and outcome["status"] != Status.skipped:
        outcome = {**outcome, "reason": f"rank {index} of {len(ranks)}: {outcome['reason']}"}
    return outcome


def _hung(ranks: Sequence[_Rank]) -> Iterator[str]:
    """Where each process is. One that has only begun dies of being asked."""
    for rank in ranks:
        if rank.process.is_alive():  # of one that has ended, the number may be another process's by now
            with contextlib.suppress(ProcessLookupError):
                os.kill(rank.pid, child.STACK_DUMP_SIGNAL)
    for index, rank in enumerate(ranks):
        who = f"rank {index} of {len(ranks)}" if len(ranks) > 1 else "It"
        if calls := rank.where():
            yield f"{who} was here:"
            yield calls
        else:
            yield f"{who} did not tell where it was" if rank.process.is_alive() else f"{who} had ended"


def _death(exitcode: int | None, num_oom_kills: int, log: str) -> dict[str, Any]:
    """How a process ended that gave no answer."""
    if exitcode == -signal.SIGKILL and num_oom_kills:
        status, reason = Status.oom, "killed by the kernel: out of memory"
    elif exitcode is not None and exitcode < 0:
        status, reason = Status.killed, f"killed by signal {-exitcode} ({signal.Signals(-exitcode).name})"
    else:
        status, reason = Status.failed, f"its process ended with exit code {exitcode} and no result"
    return {"status": status, "reason": reason, "error": log or None}


def _oom_kills() -> int:
    """How many processes the kernel has killed for memory since it started; 0 where it does not tell."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def _log_end(path: str, num_bytes: int = ERROR_BYTES) -> str:
    with contextlib.suppress(OSError), open(path, "rb") as log:
        log.seek(max(0, os.path.getsize(path) - num_bytes))
        return log.read().decode(errors="replace")
    return ""
