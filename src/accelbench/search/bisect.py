"""Finds the commit that made a cell slower, with `git bisect`.

GOOD is an earlier commit at which the cell was fast. Fresh processes of each tried commit are interleaved with GOOD's.
"""

import math
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from accelbench.answers.cells import Process
from accelbench.answers.comparison import difference
from accelbench.answers.sureness import MARGIN, SpeedRatio, compare_processes
from accelbench.errors import Interrupted, RefusedError, UserError, WriteError
from accelbench.grid.fingerprint import git_variables
from accelbench.grid.own_code import source_files
from accelbench.grid.plan import Prepared, check_request
from accelbench.isolation.hosts import Hosts
from accelbench.lifeline import scratch_folder
from accelbench.presentation import counted, say
from accelbench.project import PACKAGE, RUNS, resolved, shown, workplace
from accelbench.schema.cell import SERVING, Cell, Protocol
from accelbench.schema.record import Record
from accelbench.settings.compose import one_cell
from accelbench.sweep.interleaved import save_comparison, shuffled_runs
from accelbench.sweep.run import known
from accelbench.sweep.session import Session, folder_under_runs

# Numbers of processes after which the interval is tested. If it were tested after every process, chance differences
# would be found.
# The first test only ends a comparison in which all processes of a side failed.
LOOKS = (4, 10, 20, 40)
SLOWER, FAST = "slower", "not-slower"
WORDS = {True: SLOWER, False: FAST, None: "skip"}  # whether a commit is slower -> its word for `git bisect`
ONLY_SKIPPED = 2  # exit status of `git bisect` if all commits that are left were skipped
# Only first parents: a commit of a merged branch may lack changes that BAD's branch had at that time. The commits are
# checked out elsewhere.
START = ("start", "--no-checkout", "--first-parent", f"--term-new={SLOWER}", f"--term-old={FAST}")
# Commits that may be the first slower one, the latest first.
LEFT = (
    "log",
    "--first-parent",
    "--format=%H %s",
    f"refs/bisect/{SLOWER}",
    "--not",
    f"--glob=refs/bisect/{FAST}-*",
)


def git(*words: object, at: Path | None = None) -> str:
    """Runs a git command without the repository's hooks. Returns its output. Raises RefusedError: the command fails."""
    command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "log.showSignature=false", *map(str, words)]
    try:
        in_english = git_variables() | {"LC_ALL": "C"}  # the output is read
        done = subprocess.run(command, capture_output=True, start_new_session=True, env=in_english, cwd=at)
    except OSError as error:
        raise RefusedError(error, "bisect: git") from error
    if done.returncode != 0 and not (words[0] == "bisect" and done.returncode == ONLY_SKIPPED):
        reason = done.stderr.decode(errors="replace").strip().removeprefix("fatal: ")
        raise RefusedError(OSError(0, reason), f"git {words[0]} {words[-1]}")
    return done.stdout.decode(errors="replace").rstrip("\n")


def commit_of(name: str, word: str) -> str:
    """Returns the hash of a revision. Raises UserError, which begins with `name`: it is none."""
    commits = git("rev-parse", "--revs-only", "--end-of-options", f"{word}^{{commit}}").splitlines()
    if len(commits) != 1 or word.startswith("^"):  # ^ excludes a commit
        raise UserError(f"{name}={word}: the git repository has no such commit")
    return commits[0]


@dataclass
class Side:
    """A commit, checked out into a worktree where its cell is measured."""

    commit: str  # its hash
    folder: Path
    top: Path  # folder of the user's checkout
    session: Session
    hosts: Hosts  # they measure in the worktree
    ready: Prepared = field(init=False)

    @property
    def name(self) -> str:
        return self.commit[:8]

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Moves the working folder and `sys.path` into the worktree. New processes for cells inherit both."""
        here = Path.cwd()
        path = sys.path[:]
        try:
            os.chdir(self._moved(here) or self.folder)
            sys.path[:] = [str(entry and self._moved(Path(entry)) or entry) for entry in path]
            yield
        finally:
            os.chdir(here)
            sys.path[:] = path

    def _moved(self, path: Path) -> Path | None:
        """Returns the same folder in the worktree. Returns None if the worktree lacks it, for example `.venv`."""
        path = resolved(path)
        if path == PACKAGE.parent or not path.is_relative_to(self.top):
            return None
        moved = self.folder / path.relative_to(self.top)
        return moved if moved.is_dir() else None

    def prepare(self, cell: Cell) -> None:
        """Plans the cell. Raises UserError: the cell can't run, or none of its code is in the commit."""
        with self.inside():
            check_request([cell])
            files = [
                file for flag, path in cell.own_code.items() for file in source_files(flag, path).values()
            ]
            if not any(resolved(file).is_relative_to(self.folder) for file in files):
                raise UserError(
                    "the commit has none of the cell's code. Use a model.target from this repository"
                )
            ready = self.session.prepare([cell])
        if (reason := ready.planned[0].skip_reason) is not None:
            raise UserError(reason)
        self.ready = replace(ready, git={"revision": self.commit, "branch": None, "dirty": False})


@contextmanager
def checked_out(commit: str, session: Session) -> Iterator[Side]:
    """Checks out a commit into a worktree, with host processes that measure there. Removes the worktree at the end.

    If SIGKILL ends accelbench, `git worktree prune` removes git's entry of the worktree.
    """
    top = resolved(Path(git("rev-parse", "--show-toplevel")))
    with scratch_folder() as scratch, Hosts() as hosts:
        folder = scratch / commit[:8]
        try:
            git("worktree", "add", "--quiet", "--detach", folder, commit)
            yield Side(commit, resolved(folder), top, session, hosts)
        finally:
            with suppress(UserError):
                git("worktree", "remove", "--force", folder)


def bisect(good: str, bad: str, words: list[str], budget_s: float, console: Console) -> int:
    """Finds the first commit after GOOD that makes a cell slower.

    Prints the result of each measured commit, and the answer. Returns the exit status: 1 if no commit is found. `words`
    of the command line describe the cell.

    Raises UserError: the cell can't be measured or compared, or git refuses the commits.
    """
    good, bad = commit_of("GOOD", good), commit_of("BAD", bad)
    cell, options = one_cell(shlex.join(words))
    if cell.protocol in {Protocol.target, *SERVING}:
        raise UserError(f"protocol={cell.protocol}: bisect compares speeds: use window, steps or fit")
    place = workplace().with_data(options.data_root)
    # The folder's name depends only on the question: after a kill, the search continues from its records.
    name = options.out or f"{RUNS}/bisect-{good[:8]}-{bad[:8]}-{cell.id[:8]}"
    folder = folder_under_runs(place, name)
    session = Session(options, console, Hosts(), place, folder, folder.name)
    num = int(git("rev-list", "--first-parent", "--count", f"{good}..{bad}"))
    if not num:
        raise UserError(f"BAD={bad[:8]}: is not after GOOD={good[:8]}")
    session.say(f"{counted(num, 'commit')} after GOOD. Uncommitted changes do not count.")
    with session.alone():
        ends_s = time.monotonic() + budget_s
        try:
            with checked_out(good, session) as side:
                side.prepare(cell)
                answer, is_found = _Bisection(cell, side, folder, ends_s).search(bad)
        except KeyboardInterrupt as stop:
            raise Interrupted("; every finished process has its record, in", shown(folder)) from stop
    say(console, f"\n{answer}\nRecords: {shown(folder)}")
    return 0 if is_found else 1


@dataclass
class _Bisection:
    cell: Cell
    good: Side
    folder: Path  # folder of the records
    ends_s: float
    results: dict[str, str] = field(default_factory=dict)  # hash of a measured commit -> its result in words

    def search(self, bad: str) -> tuple[str, bool]:
        """Returns the answer, and whether it names a single commit."""
        is_slower, slowdown = self._test(bad, MARGIN)
        result = self.results[bad]
        if slowdown is None:
            raise UserError(f"BAD={bad[:8]}: {result}")
        if is_slower is None:
            return f"Can't tell whether BAD is slower than GOOD: {result}", False
        if not is_slower:
            return "No slow-down to look for: BAD is not slower than GOOD", False
        # Half of the slow-down on a logarithmic scale: commits as fast as GOOD or as BAD are equally far from it.
        share = 1 - math.sqrt(slowdown.ratio or 1.0)
        at = self.good.folder  # its worktree has the state of `git bisect`
        said = git("bisect", *START, bad, self.good.commit, at=at)
        while said.startswith("Bisecting") and time.monotonic() < self.ends_s:
            is_slower, _ = self._test(git("rev-parse", "BISECT_HEAD", at=at), share)
            said = git("bisect", WORDS[is_slower], at=at)
        left = git(*LEFT, at=at).splitlines()
        if len(left) == 1:
            first = git("rev-parse", f"refs/bisect/{SLOWER}", at=at)
            return (
                f"First slower commit: {first} {left[0].partition(' ')[2]}\nAgainst GOOD: {self.results[first]}",
                True,
            )
        return "\n  ".join(
            [f"Can't tell which of these {len(left)} is the first slower commit:", *left]
        ), False

    def _test(self, commit: str, share: float) -> tuple[bool | None, SpeedRatio | None]:
        """Compares a commit with GOOD. Returns whether it is slower by more than `share`, and the ratio of speeds.

        The first value is None if this is undecided. The ratio is None if the commit can't run.
        """
        session = self.good.session
        session.say(f"{commit[:8]} beside {self.good.name}")
        is_slower, ratio = None, None
        try:
            with checked_out(commit, session) as side:
                side.prepare(self.cell)
                ratio, result = self._compare(side, share)
            is_slower = ratio.tells_slower_by(share)
        except (WriteError, RefusedError):  # the commit did not cause these
            raise
        except UserError as error:
            result = f"does not run: {error}"
        self.results[commit] = result
        session.say(f"{commit[:8]} {WORDS[is_slower]}: {result}; {git('log', '-1', '--format=%s', commit)}")
        return is_slower, ratio

    def _compare(self, side: Side, share: float) -> tuple[SpeedRatio, str]:
        """Runs interleaved processes of both commits until it is sure whether `side` is slower by more than `share`."""
        sides = (self.good, side)
        names = (self.good.name, side.name)
        session = side.session
        session.folder = self.folder / "-".join(names)
        runs = shuffled_runs(self.cell, self.cell, LOOKS[-1] // 2, seed=int(side.name, 16))
        records: list[Record] = []
        processes: tuple[list[Process], list[Process]] = ([], [])
        with ExitStack() as stack:
            with side.inside():  # its hosts start here
                session.hosts, session.ready = side.hosts, side.ready
                stack.enter_context(session.measuring(side.ready.planned, is_brief=True))
            for num, is_second in enumerate(runs.is_second):
                if num in LOOKS:
                    ratio = compare_processes(*processes)
                    has_failed = not (ratio.num_first and ratio.num_second)
                    if has_failed or ratio.tells_slower_by(share) is not None:
                        break
                if time.monotonic() >= self.ends_s:
                    break
                now = sides[is_second]
                with now.inside():
                    item = now.ready.process(replace(self.cell, repeat=num), f"{now.name}-r{num // 2}")
                    done, _ = known(session, [item])
                    session.hosts, session.ready = now.hosts, now.ready  # the same cell with other code
                    record = done[0] if done else session.measure(item, self.ends_s - time.monotonic())
                if record.user_error and is_second:
                    raise UserError(record.reason)
                records.append(record)
                processes[is_second].append(Process.of(record))
        save_comparison(runs, names, records, session.folder)
        ratio = compare_processes(*processes)
        return ratio, difference(ratio)
