"""`make repro`: measures the suites of params.yaml, then runs `dvc repro report`, under a lock.

This process measures all suites, so that each framework starts only once. Before the measurements, DVC prepares the
data sets of these suites. After them, DVC builds the report: its measuring stages have no work left. DVC runs in its
own process. A log has the output of DVC and its stages. Only stages that the report needs are run. So a data set that
no suite uses is not downloaded.

Exit status: 0: success. 1: the report was built, but a cell failed unexpectedly. 2: the pipeline could not run; the
message explains how to fix it. 130: interrupted. 141: the reader of the output has ended, as `head` does.
"""

import contextlib
import hashlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

import yaml
from rich.console import Console

from accelbench import pipeline, stages
from accelbench.answers import headline
from accelbench.answers.jobs import jobs
from accelbench.commands.share import open_viewer
from accelbench.errors import UserError, writing_errors
from accelbench.grid.fingerprint import GIT_S, code_digest
from accelbench.grid.own_code import source_digest
from accelbench.grid.plan import prepare, read_evidence, skip_reason, total
from accelbench.isolation.hosts import Hosts
from accelbench.judging.verdict import is_retried
from accelbench.lifeline import end_with_parent
from accelbench.lock import hold
from accelbench.presentation import counted, duration, say
from accelbench.project import PACKAGE, PARAMS, PLAN, RESULTS, Workplace
from accelbench.report.read import cells_in
from accelbench.report.read import read_all as read_sweeps
from accelbench.schema.cell import Cell
from accelbench.schema.plan_file import read_plan, read_planned
from accelbench.schema.record import read_all
from accelbench.schema.secrets import masked
from accelbench.schema.serialize import digest
from accelbench.schema.text import clean
from accelbench.settings import params
from accelbench.sweep.run import stands

LOG = "runs/repro.log"  # output of DVC and its stages
MAX_TAIL = 20  # lines of the log that are shown after a failure
# Estimates of the time besides cells, as multiples of `STARTED_S`, the CPU time of this process's start. It depends on
# how fast Python runs here. `OTHERS`: DVC's start, its other stages and the report. `OTHERS_EACH`: data and stages of
# each suite.
STARTED_S = time.process_time()
OTHERS = 50.0
OTHERS_EACH = 10.0
END_S = 10.0  # seconds that DVC gets to end after an interruption


def main(*words: str) -> int:
    """Runs the pipeline, and returns the exit status.

    Args:
        words: arguments of `dvc repro`, such as targets; none: the report.
    """
    end_with_parent()
    os.chdir(ROOT)

    def run(console: Console) -> int:
        with hold(ROOT / ".accelbench.lock", "`make repro`"), Job(console) as running:
            if not words:
                if not running.prepare_data():
                    return running.explain()
                running.announce()
                running.measure()
            return running.conclude() if running.dvc(*(words or ["report"])) else running.explain()

    try:
        return stages.status_of(run)
    except SystemExit:  # if the reader of the output has ended, as `head` does, rich ends the program
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        print("\nInterrupted. Every finished cell has its record: `make repro` continues from there.", file=sys.stderr)
        return 130


class Job(contextlib.ExitStack):
    """Measures the suites, and runs DVC.

    Args:
        console: console for progress.
    """

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console
        self.began = time.monotonic()
        self.printed = ""  # output of DVC and its stages without secrets, as in the log
        self.suites = {suite.name: suite for suite in pipeline.suites(ROOT)}
        self.lefts = {name: left(suite) for name, suite in self.suites.items()}
        self.started: list[Cell] = []  # cells whose hosts have started
        self.done: list[str] = []  # measured suites, and `confirm` if the best cells were measured again
        self.hosts = self.enter_context(Hosts())
        with writing_errors(LOG):
            (ROOT / LOG).parent.mkdir(exist_ok=True)
            (ROOT / LOG).unlink(missing_ok=True)  # if it is a link, its target is not written
            self.log = self.enter_context((ROOT / LOG).open("w"))

    def prepare_data(self) -> bool:
        """Lets DVC prepare the data sets of the suites to run. Returns whether it succeeded."""
        data = {cell.data.name for suite in self._to_run() for cell in suite.cells.values()}
        data &= set(params.load(ROOT).data)
        if data and not self.dvc(*(f"data@{name}" for name in sorted(data))):
            return False
        self.lefts = {name: left(suite) for name, suite in self.suites.items()}
        return True

    def announce(self) -> None:
        """Prints an estimate of the time."""
        num = len(self._left())
        named = counted(len(self.suites), "suite")
        if not num:
            self._say(f"{named}: every cell has its record.")
            return
        evidence = read_evidence(ROOT)
        confirm_s = params.confirm_s(ROOT)
        length = total(self._left(), evidence)
        others_s = STARTED_S * (OTHERS + OTHERS_EACH * sum(map(bool, self.lefts.values())))
        parts = [f"{duration(length.seconds)} of cells"] if length.seconds else []
        parts += [f"{duration(confirm_s)} to measure the best again"] if confirm_s else []
        parts += [f"{duration(others_s)} for data and report"]
        about = replace(length, seconds=length.seconds + confirm_s + others_s)
        self._say(f"{named}, {counted(num, 'cell')} to measure: {about} ({', '.join(parts)}).")

    def dvc(self, *words: str) -> bool:
        """Runs `dvc repro` and logs its output. Returns whether it succeeded. DVC ends when this process ends."""
        command = [sys.executable, "-m", "dvc", "repro", *words]
        environment = {**os.environ, stages.DONE: " ".join(self.done)}
        with (
            subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                preexec_fn=end_with_parent,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                errors="replace",
            ) as process,
            _ending(process),
        ):
            assert process.stdout is not None
            for line in process.stdout:
                self._log(masked(line))
            return process.wait() == 0

    def _log(self, line: str) -> None:
        """Logs a line of DVC. If the line begins a stage that still has work, prints the stage's name."""
        self.printed += line
        self.log.write(line)
        self.log.flush()
        begun = re.match("Running stage '(report|confirm|data@.+|sweep@.+)':", line)
        if begun and begun[1].removeprefix("sweep@") not in self.done:
            self._say(f"Running {begun[1].replace('@', '/')} ...")

    def measure(self) -> None:
        """Measures the remaining cells, writes each suite's plan, and measures the best cells again."""
        suites = self._to_run()
        read = _read()
        for suite in suites:
            if _read() == read:
                self._measure(suite)
        if suites and _read() == read:
            pipeline.confirm_best(ROOT, self.console, self.hosts)
            self.done.append("confirm")
        if _read() != read:
            self._say(f"Code or settings have changed since this job began: DVC's stages measure the rest ({LOG}).")
            self.done.clear()

    def _measure(self, suite: pipeline.Suite) -> None:
        source_digest.cache_clear()  # the code of a user's own network may have changed meanwhile
        number = list(self.suites).index(suite.name) + 1
        cells = left(suite)  # by now its data set is prepared
        self.lefts[suite.name] = cells
        evidence = read_evidence(ROOT)
        every = self._left()
        length = f", {total(cells, evidence, self.started)}" if cells else ""
        if len(every) > len(cells) > 0:
            length += f"; all suites: {total(every, evidence, self.started)}"
        num = f"{len(cells)} of {counted(len(suite.cells), 'cell')} to measure"
        self._say(f"\nSuite {number} of {len(self.suites)}: {suite.name} ({num}{length})", "bold")
        suite.measure(self.console, self.hosts, show=lambda _: None)
        self.started += cells
        self.lefts[suite.name] = []
        self.done.append(suite.name)

    def _to_run(self) -> list[pipeline.Suite]:
        """The suites with remaining cells, and those whose plan must be written."""
        return [suite for name, suite in self.suites.items() if self.lefts[name] or not is_planned(suite)]

    def _left(self) -> list[Cell]:
        """The remaining cells of all suites."""
        return [cell for cells in self.lefts.values() for cell in cells]

    def explain(self) -> int:
        """Prints the last output of DVC, which has the reason for DVC's failure. Returns the exit status."""
        text = clean(self.printed)
        lines = text[max(0, text.rfind("Running stage ")) :].rstrip().split("\n")[-MAX_TAIL:]
        lines += [f"The whole output: {ROOT / LOG}"]
        if not _lock_is_whole():
            lines += ["dvc.lock is empty or invalid: remove it, and run `make repro` again; every record stays."]
        print("error: DVC could not finish:", *lines, sep="\n", file=sys.stderr)
        return 2

    def conclude(self) -> int:
        """Prints failed cells, the answers, the places of the results, and what git does not have yet.

        Returns: 1 if a cell failed unexpectedly or a record is not readable, else 0. With `strict: false`, always 0.
        """
        problems = pipeline.problems(ROOT)
        for line in problems:
            print(line, file=sys.stderr)
        plans = [suite.folder for suite in self.suites.values() if (suite.folder / PLAN).exists()]
        if num := sum(is_retried(record) for folder in plans for record in read_planned(folder)):
            self._say(f"Without a number: {counted(num, 'cell')}. Set retry: failed in {PARAMS}, and run `make repro`.")
        try:
            if extension := params.report_extension(ROOT):
                from accelbench.report.extension import load  # not at the top: it imports the plot libraries

                load(extension)
        except UserError as error:
            self._say(f"The report lacks the project's extension: {clean(str(error))}", "yellow")
        self._conclude()
        page = ROOT / "report" / "index.html"
        self._say(f"Report  {page.relative_to(ROOT)}   ({duration(time.monotonic() - self.began)})")
        commands = ["make ui", "accelbench best"]
        if _lock_differs():
            commands.append("git add dvc.lock && git commit")
        self._say(f"Next    {' · '.join(commands)}", wraps=False)
        open_viewer(page)  # if there is a display
        return int(bool(problems) and params.load(ROOT).strict)

    def _conclude(self) -> None:
        """Prints a summary of the answers of all suites."""
        with contextlib.suppress(UserError):
            cells = cells_in(read_sweeps(ROOT / RESULTS, wanted=params.suite_names(ROOT)))
            self.console.print()
            for line in headline.summary(jobs(cells), cells, self.console.width):
                say(self.console, line)

    def _say(self, text: str, style: str | None = None, *, wraps: bool = True) -> None:
        self.console.print(text, style=style, markup=False, soft_wrap=not (wraps and self.console.is_terminal))


def left(suite: pipeline.Suite) -> list[Cell]:
    """The cells of a suite that must still be measured: not skipped, and without a valid record.

    If the data set is not prepared, these are all cells.
    """
    wanted = [cell for cell in suite.cells.values() if skip_reason(cell) is None]
    try:
        place = Workplace.of_project(suite.root).with_data(suite.options.data_root)
        names = {item.cell.id: item.record_name for item in prepare(list(suite.cells.values()), place).planned}
    except UserError:
        return wanted
    records = {record.name: record for record in read_all([suite.folder / f"{name}.json" for name in names.values()])}
    remaining = []
    for cell in wanted:
        record = records.get(names[cell.id])
        if record is None or not stands(record, suite.options.retry, cell):
            remaining.append(cell)
    return remaining


def is_planned(suite: pipeline.Suite) -> bool:
    """Whether the suite's plan names exactly its cells. The best cells are chosen among those of the plans."""
    with contextlib.suppress(UserError):
        return {wanted.cell.id for wanted in read_plan(suite.folder).cells} == set(suite.cells)
    return False


@contextlib.contextmanager
def _ending(process: subprocess.Popen[str]) -> Iterator[None]:
    """Ends the process at the end of the block. After an error it first gets time to end by itself.

    The process may be writing dvc.lock, and a signal would leave a partial file. So a second Ctrl-C does not end the
    process at once.
    """
    try:
        yield
    finally:
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_S if sys.exc_info()[0] else 0)
        process.terminate()
        process.wait()
        signal.signal(signal.SIGINT, handler)


def _read() -> list[str]:
    """The digests of the present measuring code and settings."""
    settings = [ROOT / PARAMS, *sorted((ROOT / "conf").rglob("*.yaml"))]
    contents = [[str(path), hashlib.sha256(path.read_bytes()).hexdigest()] for path in settings if path.is_file()]
    return [code_digest(PACKAGE), digest(contents)]


def _lock_is_whole() -> bool:
    with contextlib.suppress(FileNotFoundError, yaml.YAMLError):
        return isinstance(yaml.safe_load((ROOT / "dvc.lock").read_bytes()), dict)
    return not (ROOT / "dvc.lock").exists()


def _lock_differs() -> bool:
    """Whether dvc.lock differs from git's, or is not in git; False without git."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        words = ["git", "--no-optional-locks", "status", "--porcelain", "--", "dvc.lock"]
        return bool(subprocess.run(words, cwd=ROOT, capture_output=True, timeout=GIT_S).stdout)
    return False


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
