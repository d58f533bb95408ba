"""The host: a small process that owns one preloaded forkserver and runs cells from it, one at a time.

`isolate.Hosts` starts it. The first line on standard input is the list
of modules to preload, each further line a request (`worker.main`, plus `timeout_s` and `num_gpus`). Each
request gets one line on standard output: the worker's answer, or how the process died, and the samples.
When standard input closes, the host kills what runs and ends.
"""

import contextlib
import json
import multiprocessing as mp
import os
import signal
import sys
import time
from dataclasses import asdict
from multiprocessing import connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from accelbench import worker
from accelbench.sample import Sampler
from accelbench.vocab import Status

SAMPLE_S = 0.1
# A cell that answered but does not end, since a thread of a framework hangs, is ended after this long.
END_S = 10.0
ERROR_BYTES = 4000


def main() -> None:
    """Serves requests until standard input closes."""
    # Whatever a library prints must not get between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        answers.write(json.dumps(_run(context, json.loads(line))) + "\n")
        answers.flush()


def _run(context: Any, request: dict[str, Any]) -> dict[str, Any]:
    receive, send = context.Pipe(duplex=False)
    oom_kills = _oom_kills()
    process: ForkServerProcess = context.Process(target=worker.main, args=(request, send), daemon=False)
    process.start()
    send.close()
    assert process.pid is not None
    sampler = Sampler(process.pid, num_gpus=request["num_gpus"])
    outcome = _await(process, receive, sampler, request["timeout_s"])
    if outcome is None:
        process.join(END_S)
        outcome = _death(process.exitcode, _oom_kills() - oom_kills, _log_end(request["log"]))
    if outcome["status"] != Status.timeout:
        process.join(END_S)
    _kill(process)
    process.join(END_S)  # gone, and its memory and device free, before the next cell starts
    receive.close()
    series = sampler.series(outcome.pop("peak_host_bytes", None), outcome.pop("until_boot_s", None))
    return {**outcome, "system": asdict(series)}


def _await(
    process: ForkServerProcess, receive: "connection.Connection[Any, Any]", sampler: Sampler, timeout_s: float
) -> dict[str, Any] | None:
    """The worker's answer, or a timeout's; None where the process died without one. Samples meanwhile."""
    deadline = time.monotonic() + timeout_s
    while (left := deadline - time.monotonic()) > 0:
        ready = connection.wait([receive, sys.stdin.fileno()], timeout=min(SAMPLE_S, left))
        if receive in ready:
            try:
                answer: dict[str, Any] = json.loads(receive.recv_bytes())
            except (EOFError, OSError):  # it died, perhaps in the middle of its answer
                return None
            return answer
        if ready:  # nobody writes to a busy host: standard input is at its end
            _kill(process)
            sys.exit(0)
        sampler.sample()
    _kill(process)
    return {"status": Status.timeout, "reason": f"no result within {timeout_s:g} s (timeout_s)"}


def _kill(process: ForkServerProcess) -> None:
    assert process.pid is not None
    # The group is gone where the process ended well, or is not yet one where it has just started.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.is_alive():
        process.kill()


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


def _log_end(path: str) -> str:
    with contextlib.suppress(OSError), open(path, "rb") as log:
        log.seek(max(0, os.path.getsize(path) - ERROR_BYTES))
        return log.read().decode(errors="replace")
    return ""
