"""How a process ended that gave no answer: what the kernel and the process's last words say."""

import contextlib
import os
import signal
from pathlib import Path

from accelbench.isolation.messages import Answer
from accelbench.schema.secrets import masked
from accelbench.schema.vocab import Status

ERROR_SIZE = 4000  # characters of the end of a cell's output, which become its error
READ_BYTES = 1 << 18  # of the end of a log, so that a secret at the edge of what is kept is seen whole, and masked


def death(exitcode: int | None, num_oom_kills: int, log: str) -> Answer:
    """How a process ended that gave no answer."""
    if exitcode == -signal.SIGKILL and num_oom_kills:
        status, reason = Status.oom, "killed by the kernel: out of memory"
    elif exitcode is not None and exitcode < 0:
        status, reason = Status.killed, f"killed by signal {-exitcode} ({signal.Signals(-exitcode).name})"
    else:
        status, reason = Status.failed, f"its process ended with exit code {exitcode} and no result"
    return Answer(status=status, reason=reason, error=log or None)


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
