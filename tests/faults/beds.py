"""Sweeps that something befalls, each in a project and a temporary folder of its own, and what they leave."""

import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import psutil

from accelbench.errors import UserError
from accelbench.project import PLAN, RECORDS
from accelbench.schema import record as records
from accelbench.schema.record import Record
from accelbench.schema.vocab import Status
from accelbench.sinks.mlflow_fields import start_ms
from fakes import blocks_of, make_measurement

SEED = int(os.environ.get("FAULTS_SEED") or random.randrange(1000))
SWEEPER = Path(__file__).with_name("sweeper.py")
OUT = "runs/faults"
TIMEOUT_S = 60.0  # of a sweep that takes a second
ENDS_S = 15.0  # until all processes of a killed sweep must have ended


class Sweeper:
    """A process (sweeper.py) that forks sweeps, one at a time; it has imported `preload`, and has these variables."""

    def __init__(self, *preload: str, **environment: str) -> None:
        inherited = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
        command = [sys.executable, SWEEPER, *preload]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=inherited | environment, **pipes)
        assert self.answer() == "ready"

    def __enter__(self) -> "Sweeper":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def start(self, job: dict) -> int:
        """Starts a command; its process id."""
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self):
        """What it says next: after the process id of a command, its exit code, which is None if it had to be killed."""
        return json.loads(self.process.stdout.readline())


def marked(marker: str) -> list[psutil.Process]:
    """The processes that have `NAME=value` in their environment."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError):
            if marker.encode() in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0"):
                found.append(process)
    return found


class Bed:
    """A project, copied from a template, and a temporary folder in `folder`, for several sweeps with the same out=.

    The project and the temporary folder are in `watched`, the sweeps' output beside it.
    """

    def __init__(self, template: Path, folder: Path, sweeper: Sweeper, tracking: str = "none") -> None:
        self.folder, self.sweeper, self.tracking = folder, sweeper, tracking
        self.watched, self.output = folder / "in", folder / "output"
        self.project, self.scratch = self.watched / "project", self.watched / "tmp"
        shutil.copytree(template, self.project)
        self.scratch.mkdir()
        self.output.touch()

    def start(self, sizes, words=("run",), out=OUT, **options) -> int:
        """Starts a sweep of one cell per batch size, or another command; returns the process id."""
        paths = ("watched", "project", "scratch", "output")
        job = {name: str(getattr(self, name)) for name in paths} | {"words": words, "batch_sizes": list(sizes)}
        job |= {"fault": "none", "out": out, "tracking": self.tracking}
        self._start = self.output.stat().st_size
        return self.sweeper.start(job | {"timeout_s": TIMEOUT_S, "cell_timeout_s": TIMEOUT_S} | options)

    def wait(self) -> tuple[int | None, str]:
        """The exit code of what was started, and what it printed."""
        code = self.sweeper.answer()
        return code, self.output.read_bytes()[self._start :].decode(errors="replace")

    def run(self, *arguments, **options) -> tuple[int | None, str]:
        """Starts and waits."""
        self.start(*arguments, **options)
        return self.wait()

    def records(self, out=OUT) -> dict[int, Record]:
        """The records that can be read, by batch size."""
        found = {}
        for path in self.files(out):
            with contextlib.suppress(UserError):
                record = records.read(path)
                found[record.cell.batch_size] = record
        return found

    def files(self, out=OUT) -> list[Path]:
        """The files of the records."""
        return list((self.project / out).glob(RECORDS))

    def processes(self) -> list[psutil.Process]:
        """Those that the sweeps started and that still run; not the sweep itself."""
        return marked(f"FAULTS_BED={self.watched}")

    def left_running(self) -> list[str]:
        """The processes that do not end; kills them."""
        deadline = time.monotonic() + ENDS_S
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.02)
        said = [f"{process.pid} {process.status()}: {' '.join(process.cmdline())}" for process in left]
        for process in left:
            process.kill()
        return said

    def let_an_hour_pass(self) -> None:
        """Makes files old that killed processes were writing: only then the next sweep takes them for abandoned."""
        for path in self.watched.rglob(".accelbench-*"):
            os.utime(path, (0, 0))

    def left_behind(self, out=OUT) -> list[str]:
        """Files that no sweep should leave."""
        wanted = {PLAN, ".hydra", *(path.name for path in self.files(out))}
        found = [path for path in (self.project / out).iterdir() if path.name not in wanted]
        # Python's tempfile writes a file to try a folder; what it leaves when it is killed then has no name of ours.
        found += [path for path in self.scratch.iterdir() if not re.fullmatch("[a-z0-9_]{8}", path.name)]
        return sorted(str(path.relative_to(self.watched)) for path in found)


def is_true(record: Record) -> bool:
    """Whether it is what the engine `fakes` measures, or a failure with a reason and without numbers."""
    if record.status == Status.ok:
        found = record.measurement and replace(record.measurement, allocator=None, allocator_library=None, checked=[])
        return found == make_measurement(blocks=blocks_of(record.cell)) and record.reason is None
    is_failure = record.status in (Status.failed, Status.killed, Status.timeout)
    return is_failure and bool(record.reason) and record.measurement is None


def wrong_runs(bed: Bed, *outs: str) -> list[object]:
    """What the store should not have: not one finished run for each record, or a run of another that does not end."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{bed.project}/mlflow.db")
    experiment = client.get_experiment_by_name("accelbench/test")
    found = (
        client.search_runs([experiment.experiment_id], "tags.record != ''", max_results=10_000) if experiment else []
    )
    runs = [((run.data.tags["record"], run.info.start_time), run.info.status) for run in found]
    wanted = {(record.name, start_ms(record)) for out in outs for record in bed.records(out).values()}
    delivered = Counter(key for key, status in runs if status == "FINISHED")
    lacking = [key for key in wanted if delivered[key] != 1]
    # Those of a cell that failed and was measured again.
    unfinished = [run for run in runs if run[0] not in wanted and run[1] not in ("FINISHED", "KILLED", "FAILED")]
    return lacking + unfinished
