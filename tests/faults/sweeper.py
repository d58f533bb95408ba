"""A process that has imported all that a sweep needs. For each line on standard input it forks one that runs a command.

A line is JSON: `watched` (a folder that marks the processes), `project`, `scratch` (its TMPDIR), `output` (a file),
`words` (of the command line), `out`, `tracking`, `batch_sizes`, `fault` (of `fakes`), `cell_timeout_s` and `timeout_s`.
The answers are the process id, and later the exit code: negative for a signal, null if the process had to be killed.
"""

import json
import os
import select
import signal
import sys
import tempfile
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from accelbench import cli  # noqa: E402
from accelbench.grid.fingerprint import fingerprint  # noqa: E402
from accelbench.isolation import hosts  # noqa: E402
from accelbench.schema.vocab import Engine  # noqa: E402
from accelbench.settings import compose  # noqa: E402
from accelbench.settings.config import Retry  # noqa: E402
from accelbench.sweep import run, session, terminal  # noqa: E402, F401
from fakes import faulty_host, make_cell, make_options  # noqa: E402

START_S, MARGIN_S = 10.0, 5.0  # how long a sweep waits for a host that is stopped, beyond the cell's limit


def main() -> None:
    """Serves until standard input closes."""
    if "mlflow" in sys.argv[1:]:
        import accelbench.sinks.delivery  # noqa: F401
    fingerprint(Engine.pytorch)  # is kept
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if not pid:
            _run(job)
        print(json.dumps(pid), flush=True)
        print(json.dumps(_exit_code(pid, job["timeout_s"])), flush=True)


def _exit_code(pid: int, timeout_s: float) -> int | None:
    pidfd = os.pidfd_open(pid)
    in_time, _, _ = select.select([pidfd], [], [], timeout_s)
    if not in_time:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(pidfd)
    return code if in_time else None


def _run(job: dict) -> None:
    """Runs the command as the console script would; ends this process."""
    output = os.open(job["output"], os.O_WRONLY | os.O_APPEND)
    for fd, copy in ((os.open(os.devnull, os.O_RDONLY), 0), (output, 1), (output, 2)):
        os.dup2(fd, copy)
    os.chdir(job["project"])
    tempfile.tempdir = None
    os.environ |= {"FAULTS_BED": job["watched"], "TMPDIR": job["scratch"], "ACCELBENCH_LOCK": job["watched"]}
    cells = [make_cell(job["fault"], batch_size=size, timeout_s=job["cell_timeout_s"]) for size in job["batch_sizes"]]
    options = make_options(tracking=job["tracking"], out=job["out"], retry=Retry.failed)
    hosts.START_S = START_S
    hosts.MARGIN_S = MARGIN_S
    faulty = hosts.Hosts(faulty_host)
    hosts.Hosts = lambda *_: faulty
    # Hydra takes longer than all the rest, and is over when the sweep begins.
    compose.asked = lambda words: [[] for _ in cells]
    compose.runs_of = lambda jobs: cells
    compose.cells_of = lambda configs: (cells, options)
    code = 1
    try:
        code = cli.main([*job["words"], f"out={job['out']}"] if job["words"] == ["run"] else job["words"])
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
