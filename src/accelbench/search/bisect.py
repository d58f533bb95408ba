"""Finds the commit that made a cell slower: `git bisect`, with processes of each commit interleaved with GOOD's."""

import math
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from rich.console import Console

from accelbench import lock
from accelbench.compare.comparison import MARGIN, SpeedRatio, compare_processes, difference
from accelbench.compare.record_sets import ComparedProcess
from accelbench.errors import Interrupted, RefusedError, UserError, WriteError
from accelbench.grid.plan import Prepared, check_request
from accelbench.isolation.hosts import Hosts
from accelbench.presentation import counted, say
from accelbench.project import RUNS, shown, workplace
from accelbench.schema.plan_file import WantedCell
from accelbench.schema.record import Record
from accelbench.schema.vocab import SERVING, Protocol
from accelbench.search.worktrees import Commit, Worktree, git
from accelbench.settings.compose import one_cell
from accelbench.sweep.context import SweepContext, folder_under_runs
from accelbench.sweep.interleaved import save_comparison, shuffled_runs
from accelbench.sweep.run import known
from accelbench.sweep.session import Session

MOST = 20  # rounds of a commit: one that can't be told by then is near the limit
ENOUGH = 4  # processes of both commits: a side of which none has a speed by then gets no more
WORDS = {True: "slower", False: "not-slower", None: "skip"}  # whether a commit is slower -> what `git bisect` gets


@dataclass(frozen=True)
class _Side:
    """A commit that can be measured."""

    commit: Commit
    tree: Worktree
    ready: Prepared
    context: SweepContext


class Bisection:
    """One search among GOOD and the commits after it, for the cell of `words`."""

    def __init__(self, listed: Sequence[Commit], words: Sequence[str], budget_s: float, console: Console) -> None:
        self.good, *self.after = listed
        self.cell, self.options = one_cell(shlex.join(words))
        if self.cell.protocol in {Protocol.target, *SERVING}:
            raise UserError(f"protocol={self.cell.protocol}: bisect compares speeds: use window, steps or fit")
        self.place = workplace().with_data(self.options.data_root)
        # The same for the same question: one that was killed goes on from its records.
        name = f"{RUNS}/bisect-{self.good.short}-{self.after[-1].short}-{self.cell.id[:8]}"
        self.folder = folder_under_runs(self.place, self.options.out or name)
        self.console, self.budget_s = console, budget_s
        self.told: dict[str, str] = {}  # what is known of each measured commit, by its hash

    def say(self, line: str) -> None:
        say(self.console, line)

    def run(self) -> int:
        """Prints what each commit is, and the answer; the exit status: 1 without one. Raises UserError."""
        self.say(f"{counted(len(self.after), 'commit')} after GOOD. Work that is not committed does not count.")
        with lock.hold_measuring(self.say):
            self.ends_s = time.monotonic() + self.budget_s
            try:
                with self._side(self.good) as good:
                    return self._search(good)
            except KeyboardInterrupt as stop:
                raise Interrupted("; every finished process has its record, in", shown(self.folder)) from stop

    def _search(self, good: _Side) -> int:
        left, bad = self.after, self.after[-1]
        is_slower, slowdown = self._test(good, bad, MARGIN, len(left))
        if slowdown is None:
            raise UserError(f"BAD={bad.short}: {self.told[bad.hash]}")
        if is_slower is None:
            return self._end(f"Can't tell whether BAD is slower than GOOD: {self.told[bad.hash]}")
        if not is_slower:
            return self._end("No slow-down to look for: BAD is not slower than GOOD")
        # Half of the slow-down, on the scale of logarithms: commits as fast as GOOD, or as BAD, are far from it.
        share = 1 - math.sqrt(slowdown.ratio or 1.0)
        folder = good.tree.folder  # git keeps a search for each worktree, so that one of the user's goes on
        terms = f"--term-old={WORDS[False]}", f"--term-new={WORDS[True]}"
        git("bisect", "start", *terms, "--no-checkout", "--first-parent", bad.hash, self.good.hash, folder=folder)
        while time.monotonic() < self.ends_s and any(each.hash not in self.told for each in left):
            wanted = git("rev-parse", "BISECT_HEAD", folder=folder)
            commit = next(each for each in left if each.hash == wanted)
            is_slower, _ = self._test(good, commit, share, len(left))
            git("bisect", WORDS[is_slower], commit.hash, folder=folder)
            hashes = git("log", "--bisect", "--first-parent", "--format=%H", folder=folder).split()
            left = [each for each in left if each.hash in hashes]
        first = left[0]
        if len(left) == 1:
            answer = f"First slower commit: {first.hash} {first.subject}\nAgainst GOOD: {self.told[first.hash]}"
            return self._end(answer, status=0)
        named = [f"  {each.short} {each.subject}: {self.told.get(each.hash, 'not measured')}" for each in left]
        return self._end("\n".join([f"Can't tell which of these {len(left)} is the first slower commit:", *named]))

    def _end(self, answer: str, status: int = 1) -> int:
        self.say(f"\n{answer}\nRecords: {shown(self.folder)}")
        return status

    @contextmanager
    def _side(self, commit: Commit) -> Iterator[_Side]:
        """A commit's files and hosts. Raises UserError: it does not run."""
        with Worktree.of(commit) as tree, Hosts() as hosts:
            folder = self.folder
            context = SweepContext(self.options, self.console, hosts, self.place, folder, folder.name, refuses=True)
            with tree.inside():
                check_request([self.cell])
                tree.check(self.cell)
                ready = context.prepare([self.cell])
            if (reason := ready.planned[0].skip_reason) is not None:
                raise UserError(reason)
            state = {"revision": commit.hash, "branch": None, "dirty": False}
            yield _Side(commit, tree, replace(ready, git=state), context)

    def _test(self, good: _Side, commit: Commit, share: float, num_left: int) -> tuple[bool | None, SpeedRatio | None]:
        """Prints whether a commit is slower than GOOD by more than this share; it has no ratio if it does not run."""
        self.say(f"{commit.short} beside {self.good.short}: {counted(num_left, 'commit')} left")
        is_slower, found = None, None
        try:
            with self._side(commit) as side:
                found, why = self._measure(good, side, share)
            is_slower = found.tells_slower_by(share)
        except (WriteError, RefusedError):  # no fault of the commit
            raise
        except UserError as error:
            why = f"does not run: {error}"
        self.told[commit.hash] = why
        self.say(f"{commit.short} {WORDS[is_slower]}: {why}; {commit.subject}")
        return is_slower, found

    def _measure(self, good: _Side, side: _Side, share: float) -> tuple[SpeedRatio, str]:
        """Compares interleaved processes of both commits until they tell, and has `compare` find them."""
        folder = self.folder / f"{good.commit.short}-{side.commit.short}"
        good.context.folder = side.context.folder = folder
        runs = shuffled_runs(self.cell, self.cell, MOST, seed=int(side.commit.hash[:8], 16))
        records: list[Record] = []
        processes: tuple[list[ComparedProcess], list[ComparedProcess]] = [], []
        found, failure = compare_processes(*processes), ""
        with ExitStack() as stack:
            with side.tree.inside():  # where its hosts start, and its network is checked
                session = stack.enter_context(Session(side.context, side.ready, side.ready.planned, is_brief=True))
            for num, cell in enumerate(runs.cells):
                is_stuck = num >= ENOUGH and not (found.num_first and found.num_second)
                if is_stuck or found.tells_slower_by(share) is not None or time.monotonic() >= self.ends_s:
                    break
                now = side if runs.is_second[num] else good
                with now.tree.inside():
                    item = now.ready.process(cell, f"{now.commit.short}-r{num // 2}")
                    done, _ = known(now.context, [item])
                    session.at(now.context, now.ready)
                    record = done[0] if done else session.measure(item, self.ends_s - time.monotonic())
                records.append(record)
                process = ComparedProcess.of(record)
                processes[runs.is_second[num]].append(process)
                if not process.rates:
                    failure = f"; {record.label}: {process.outcome}: {record.reason or process.disturbed}"
                found = compare_processes(*processes)
        side.context.write_plan([WantedCell(each.cell, each.name, each.label) for each in records])
        save_comparison(runs, (good.commit.short, side.commit.short), records, folder)
        return found, difference(found) + failure
