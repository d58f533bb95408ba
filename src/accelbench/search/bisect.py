"""Finds the commit that made a cell slower, with fresh processes of each commit interleaved with those of GOOD."""

import math
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from accelbench import lock
from accelbench.compare.comparison import MARGIN, SpeedRatio, compare_processes, difference
from accelbench.compare.record_sets import ComparedProcess
from accelbench.errors import Interrupted, RefusedError, UserError, WriteError
from accelbench.grid.fingerprint import git_variables
from accelbench.grid.own_code import source_files
from accelbench.grid.plan import Prepared, check_request
from accelbench.isolation.hosts import Hosts
from accelbench.lifeline import scratch_folder
from accelbench.presentation import counted, say
from accelbench.project import PACKAGE, RUNS, resolved, shown, workplace
from accelbench.schema.cell import Cell
from accelbench.schema.plan_file import WantedCell
from accelbench.schema.record import Record
from accelbench.schema.vocab import SERVING, Protocol
from accelbench.settings.compose import one_cell
from accelbench.sweep.context import SweepContext, folder_under_runs
from accelbench.sweep.interleaved import save_comparison, shuffled_runs
from accelbench.sweep.run import known
from accelbench.sweep.session import Session

# After so many processes the interval is looked at: a look at each would find differences by chance. The first look
# ends a comparison only if all processes of a side failed.
LOOKS = (4, 10, 20, 40)
WORDS = {True: "slower", False: "not-slower", None: "skip"}  # whether a commit is slower -> the word for it


@dataclass(frozen=True)
class Commit:
    """A commit of the repository of the current folder."""

    hash: str
    subject: str

    @property
    def short(self) -> str:
        return self.hash[:8]


def git(*words: object) -> str:
    """Returns what git prints, without the hooks of the repository. Raises RefusedError if it fails."""
    command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "log.showSignature=false", *map(str, words)]
    try:
        done = subprocess.run(command, capture_output=True, start_new_session=True, env=git_variables())
    except OSError as error:
        raise RefusedError(error, "bisect: git") from error
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip().removeprefix("fatal: ")
        raise RefusedError(OSError(0, reason), f"git {words[0]} {words[-1]}")
    return done.stdout.decode(errors="replace").rstrip("\n")


def commits(good: str, bad: str) -> list[Commit]:
    """Returns GOOD and the branch's commits after it up to BAD, the oldest first. Raises UserError: there are none."""
    # First parents only: the commits of a merged branch may lack what this branch had by then.
    hashes = []
    for name, word in (("GOOD", good), ("BAD", bad)):
        try:
            hashes.append(git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{word}^{{commit}}"))
        except RefusedError as error:
            raise UserError(f"{name}={word}: no revision of a git repository here") from error
    wanted = ("--first-parent", "--reverse", hashes[1], "--not", f"{hashes[0]}^@")
    lines = git("log", "--format=%H %s", *wanted).split("\n")
    if not lines[0].startswith(hashes[0]):
        raise UserError(f"GOOD={good}: is not an ancestor of BAD={bad} (by first parents)")
    if len(lines) < 2:
        raise UserError(f"GOOD={good}, BAD={bad}: are one commit")
    return [Commit(*line.split(" ", 1)) for line in lines]


@dataclass
class Side:
    """A commit whose files are in a worktree, where its cell is measured."""

    commit: Commit
    folder: Path
    top: Path  # of the checkout
    context: SweepContext
    ready: Prepared = field(init=False)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Has the working folder and Python's path, also of hosts that start, in the worktree, not in the checkout."""
        here = Path.cwd()
        path = sys.path[:]
        try:
            os.chdir(self._moved(here) or self.folder)
            sys.path[:] = [str(each and self._moved(Path(each)) or each) for each in path]
            yield
        finally:
            os.chdir(here)
            sys.path[:] = path

    def _moved(self, path: Path) -> Path | None:
        """The same folder of the worktree; None if it has none, as for a virtual environment in the repository."""
        path = resolved(path)
        if path == PACKAGE.parent or not path.is_relative_to(self.top):
            return None
        moved = self.folder / path.relative_to(self.top)
        return moved if moved.is_dir() else None

    def prepare(self, cell: Cell) -> None:
        """Plans the cell. Raises UserError: it can't run, or nothing that it names is among the commit's files."""
        with self.inside():
            check_request([cell])
            files = [file for flag, path in cell.own_code.items() for file in source_files(flag, path).values()]
            if not any(resolved(file).is_relative_to(self.folder) for file in files):
                named = [f"{flag}={path}" for flag, path in cell.own_code.items()] or [f"model={cell.model.name}"]
                raise UserError(f"{named[0]}: is not among the files of the commit: name code of this repository")
            ready = self.context.prepare([cell])
        if (reason := ready.planned[0].skip_reason) is not None:
            raise UserError(reason)
        self.ready = replace(ready, git={"revision": self.commit.hash, "branch": None, "dirty": False})


@contextmanager
def checked_out(commit: Commit, context: SweepContext) -> Iterator[Side]:
    """A worktree of a commit with hosts of its own. SIGKILL leaves it; `git worktree prune` removes it then."""
    top = resolved(Path(git("rev-parse", "--show-toplevel")))
    with scratch_folder() as scratch, Hosts() as hosts:
        folder = scratch / commit.short
        try:
            git("worktree", "add", "--quiet", "--detach", folder, commit.hash)
            yield Side(commit, resolved(folder), top, replace(context, hosts=hosts))
        finally:
            with suppress(UserError):
                git("worktree", "remove", "--force", folder)


def bisect(listed: Sequence[Commit], words: Sequence[str], budget_s: float, console: Console) -> int:
    """Finds the first commit after GOOD, the first of `listed`, that makes the cell of `words` slower.

    Prints what each measured commit is, and the answer; returns the exit status: 1 without one. Raises UserError.
    """
    good, *after = listed
    cell, options = one_cell(shlex.join(words))
    if cell.protocol in {Protocol.target, *SERVING}:
        raise UserError(f"protocol={cell.protocol}: bisect compares speeds: use window, steps or fit")
    place = workplace().with_data(options.data_root)
    # One name for one question: a search that was killed goes on from its records.
    name = options.out or f"{RUNS}/bisect-{good.short}-{after[-1].short}-{cell.id[:8]}"
    folder = folder_under_runs(place, name)
    context = SweepContext(options, console, Hosts(), place, folder, folder.name, refuses=True)
    context.say(f"{counted(len(after), 'commit')} after GOOD. Work that is not committed does not count.")
    with lock.hold_measuring(context.say):
        ends_s = time.monotonic() + budget_s
        try:
            with checked_out(good, context) as side:
                side.prepare(cell)
                answer, is_found = _Bisection(cell, side, folder, ends_s).search(after)
        except KeyboardInterrupt as stop:
            raise Interrupted("; every finished process has its record, in", shown(folder)) from stop
    say(console, f"\n{answer}\nRecords: {shown(folder)}")
    return 0 if is_found else 1


@dataclass
class _Bisection:
    cell: Cell
    good: Side
    folder: Path  # of the records
    ends_s: float
    results: dict[str, str] = field(default_factory=dict)  # how each measured commit compares, by its hash

    def search(self, left: list[Commit]) -> tuple[str, bool]:
        """Returns the answer, and whether it names one commit of `left`, of which the last one is BAD."""
        bad = left[-1]
        is_slower, slowdown = self._test(bad, MARGIN, len(left))
        result = self.results[bad.hash]
        if slowdown is None:
            raise UserError(f"BAD={bad.short}: {result}")
        if is_slower is None:
            return f"Can't tell whether BAD is slower than GOOD: {result}", False
        if not is_slower:
            return "No slow-down to look for: BAD is not slower than GOOD", False
        # Half of the slow-down, on the scale of logarithms: commits as fast as GOOD, or as BAD, are far from it.
        share = 1 - math.sqrt(slowdown.ratio or 1.0)
        while untested := [commit for commit in left if commit.hash not in self.results]:
            if time.monotonic() >= self.ends_s:
                break
            middle = len(left) / 2 - 1
            commit = min(untested, key=lambda each: abs(left.index(each) - middle))
            is_slower, _ = self._test(commit, share, len(left))
            if is_slower is not None:
                place = left.index(commit) + 1
                left = left[:place] if is_slower else left[place:]
        first = left[0]
        if len(left) == 1:
            named = f"{first.hash} {first.subject}\nAgainst GOOD: {self.results[first.hash]}"
            return f"First slower commit: {named}", True
        lines = [f"Can't tell which of these {len(left)} is the first slower commit:"]
        for commit in left:
            lines.append(f"  {commit.short} {commit.subject}: {self.results.get(commit.hash, 'not measured')}")
        return "\n".join(lines), False

    def _test(self, commit: Commit, share: float, num_left: int) -> tuple[bool | None, SpeedRatio | None]:
        """Prints whether a commit is slower than GOOD by more than `share`; the ratio is None if it does not run."""
        context = self.good.context
        context.say(f"{commit.short} beside {self.good.commit.short}: {counted(num_left, 'commit')} left")
        is_slower, ratio = None, None
        try:
            with checked_out(commit, context) as side:
                side.prepare(self.cell)
                ratio, result = self._compare(side, share)
            is_slower = ratio.tells_slower_by(share)
        except (WriteError, RefusedError):  # no fault of the commit
            raise
        except UserError as error:
            result = f"does not run: {error}"
        self.results[commit.hash] = result
        context.say(f"{commit.short} {WORDS[is_slower]}: {result}; {commit.subject}")
        return is_slower, ratio

    def _compare(self, side: Side, share: float) -> tuple[SpeedRatio, str]:
        """Runs interleaved processes of both commits until their ratio is clear of `share`, for `compare` to show."""
        sides = (self.good, side)
        names = (self.good.commit.short, side.commit.short)
        for each in sides:
            each.context.folder = self.folder / "-".join(names)
        runs = shuffled_runs(self.cell, self.cell, LOOKS[-1] // 2, seed=int(side.commit.hash[:8], 16))
        records: list[Record] = []
        processes: tuple[list[ComparedProcess], list[ComparedProcess]] = ([], [])
        failure = ""
        with ExitStack() as stack:
            with side.inside():  # where its hosts start, and its network is checked
                session = stack.enter_context(Session(side.context, side.ready, side.ready.planned, is_brief=True))
            for num, cell in enumerate(runs.cells):
                if num in LOOKS:
                    ratio = compare_processes(*processes)
                    has_failed = not (ratio.num_first and ratio.num_second)
                    if has_failed or ratio.tells_slower_by(share) is not None:
                        break
                if time.monotonic() >= self.ends_s:
                    break
                now = sides[runs.is_second[num]]
                with now.inside():
                    item = now.ready.process(cell, f"{now.commit.short}-r{num // 2}")
                    done, _ = known(now.context, [item])
                    session.at(now.context, now.ready)
                    record = done[0] if done else session.measure(item, self.ends_s - time.monotonic())
                records.append(record)
                process = ComparedProcess.of(record)
                processes[runs.is_second[num]].append(process)
                if not process.rates:
                    failure = f"; {record.label}: {process.outcome}: {record.reason or process.disturbed}"
        side.context.write_plan([WantedCell(each.cell, each.name, each.label) for each in records])
        save_comparison(runs, names, records, side.context.folder)
        ratio = compare_processes(*processes)
        return ratio, difference(ratio) + failure
