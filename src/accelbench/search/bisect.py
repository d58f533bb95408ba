"""Finds the commit that made a cell slower: processes of commits beside GOOD's, interleaved, until each is sure."""

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial

from rich.console import Console

from accelbench import lock
from accelbench.compare.answer import SpeedRatio, difference
from accelbench.compare.commits import MOST, State, half_of, judged, search
from accelbench.compare.record_sets import ComparedProcess
from accelbench.errors import Interrupted, RefusedError, UserError, WriteError, writing_errors
from accelbench.grid.plan import Prepared, check_request
from accelbench.isolation.hosts import Hosts
from accelbench.judging import disturbed
from accelbench.presentation import counted, duration, say
from accelbench.project import BISECTION, RUNS, shown, workplace
from accelbench.schema.plan_file import WantedCell
from accelbench.schema.record import Record
from accelbench.schema.serialize import write_json
from accelbench.schema.vocab import SERVING, Protocol, Status
from accelbench.search.worktrees import Commit, Worktree
from accelbench.settings.compose import one_cell
from accelbench.stats.order_statistics import median
from accelbench.sweep.context import SweepContext, folder_under_runs
from accelbench.sweep.interleaved import save_comparison, shuffled_runs
from accelbench.sweep.run import known
from accelbench.sweep.session import Session


@dataclass(frozen=True)
class Told:
    """What is said of a commit by its processes beside those of another one."""

    commit: Commit
    against: Commit
    state: State
    why: str = ""  # it does not run, or can't be told
    found: SpeedRatio | None = None
    records: tuple[str, ...] = ()  # of each of the two, the process in the middle


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
        if not self.cell.own_code:
            raise UserError(f"model={self.cell.model.name}: no code of this repository: name it by model=custom")
        if self.cell.protocol in {Protocol.target, *SERVING}:
            raise UserError(f"protocol={self.cell.protocol}: bisect compares speeds: use window, steps or fit")
        self.place = workplace().with_data(self.options.data_root)
        # The same for the same question: one that was killed goes on from its records.
        name = f"{RUNS}/bisect-{self.good.short}-{self.after[-1].short}-{self.cell.id[:8]}"
        self.folder = folder_under_runs(self.place, self.options.out or name)
        self.console, self.budget_s, self.told, self.say = console, budget_s, list[Told](), partial(say, console)

    def run(self) -> int:
        """Prints what each commit is, and the answer; the exit status: 1 without one. Raises UserError."""
        self.say(f"{counted(len(self.after), 'commit')} after GOOD. Work that is not committed does not count.")
        with lock.hold_measuring(self.say), ExitStack() as stack:
            self.ends_s = time.monotonic() + self.budget_s
            try:
                first = stack.enter_context(self._side(self.good))
            except UserError as error:
                raise UserError(f"GOOD={self.good.short}: {error}") from error
            try:
                return self._search(first)
            except KeyboardInterrupt as stop:
                raise Interrupted("; every finished process has its record, in", shown(self.folder)) from stop

    def _search(self, first: _Side) -> int:
        codes = {self.after[-1].code(): State.slower, self.good.code(): State.not_slower}
        if len(codes) < 2:
            return self._end("No slow-down to look for: BAD has GOOD's code", [])
        bad = self._compare(first, self.after[-1], None, len(self.after))
        if bad.state == State.broken:
            raise UserError(f"BAD={bad.commit.short}: does not run: {bad.why}")
        if bad.found is None or bad.state == State.cant_tell:
            why = bad.why or "give it a longer --budget, or the cell a longer window"
            return self._end(f"Can't tell whether BAD is slower than GOOD: {why}", [])
        if bad.state == State.not_slower:
            return self._end("No slow-down to look for: BAD is not slower than GOOD", [])
        half = half_of(bad.found)

        def state_of(at: int, num_left: int) -> State | None:
            if time.monotonic() >= self.ends_s:
                return None
            commit, code = self.after[at], self.after[at].code()
            if code in codes:
                self.say(f"{commit.short} {codes[code]:<13}has the code of another one; {commit.subject}")
            else:
                codes[code] = self._compare(first, commit, half, num_left).state
            return codes[code]

        low, high = search(len(self.after), state_of)
        left = self.after[low + 1 : high + 1]
        if len(left) > 1:
            named = "".join(f"\n  {each.short} {each.subject}" for each in left)
            return self._end(f"Can't tell which of these {len(left)} commits is the first slower one:{named}", left)
        with self._side(self.after[low]) if low >= 0 else nullcontext(first) as before:
            proof = self._compare(before, left[0], half, 1, "-proof")
        if proof.found is None or proof.state != State.slower:
            than = f"slower than GOOD, but in new processes beside the commit before it: {proof.state}"
            return self._end(f"Can't tell whether it is {left[0].short} {left[0].subject}: {than}", left)
        answer = f"First slower commit: {left[0].hash} {left[0].subject}\nAgainst the one before: "
        return self._end(f"{answer}{difference(proof.found)}\nProof: {' '.join(proof.records)}", left, proof)

    def _end(self, answer: str, left: Sequence[Commit], proof: Told | None = None) -> int:
        """Prints and keeps the answer, and the commits that are left."""
        content = {"answer": answer, "left": [asdict(each) for each in left], "proof": proof and asdict(proof)}
        with writing_errors(shown(self.folder / BISECTION)):
            write_json(self.folder / BISECTION, {**content, "commits": [asdict(each) for each in self.told]})
        self.say(f"\n{answer}\nRecords: {shown(self.folder)}, and {BISECTION} there")
        return int(proof is None)

    @contextmanager
    def _side(self, commit: Commit) -> Iterator[_Side]:
        """A commit's files and hosts. Raises UserError: it does not run."""
        with Worktree.of(commit) as tree, Hosts() as hosts:
            place, folder = self.place, self.folder
            context = SweepContext(self.options, self.console, hosts, place, folder, folder.name, refuses=True)
            with tree.inside():
                check_request([self.cell])
                tree.check(self.cell)
                ready = context.prepare([self.cell])
            if (reason := ready.planned[0].skip_reason) is not None:
                raise UserError(reason)
            git = {"revision": commit.hash, "branch": None, "dirty": False}
            yield _Side(commit, tree, replace(ready, git=git), context)

    def _say_at(self, text: str) -> None:
        self.say(f"{text}; {duration(time.monotonic() - self.ends_s + self.budget_s)} of {duration(self.budget_s)}")

    def _compare(self, first: _Side, commit: Commit, half: float | None, num_left: int, ending: str = "") -> Told:
        """Prints what a commit is, by rounds beside the first one until it is sure, in a folder with this ending."""
        self._say_at(f"{commit.short} beside {first.commit.short}: {counted(num_left, 'commit')} left")
        try:
            with self._side(commit) as second:
                told = _Pair(first, second, ending, self.ends_s, self._say_at).told(half)
        except (WriteError, RefusedError):  # no fault of the commit
            raise
        except UserError as error:
            told = Told(commit, first.commit, State.broken, str(error))
        self.told.append(told)
        said = told.why or (difference(told.found) if told.found else "too few processes")
        self.say(f"{commit.short} {told.state:<13}{said}; {commit.subject}")
        return told


class _Pair:
    """Two commits and the rounds of their processes, whose records are in one folder."""

    def __init__(self, first: _Side, second: _Side, ending: str, ends_s: float, say: Callable[[str], None]) -> None:
        self.folder = second.context.folder / f"{first.commit.short}-{second.commit.short}{ending}"
        self.sides = [replace(each, context=replace(each.context, folder=self.folder)) for each in (first, second)]
        self.ends_s, self.say = ends_s, say
        self.cell = first.ready.planned[0].cell
        self.runs = shuffled_runs(self.cell, self.cell, MOST, seed=int(second.commit.hash[:8], 16))
        self.records: tuple[list[Record], list[Record]] = [], []
        self.session: Session | None = None

    def told(self, half: float | None) -> Told:
        """What the second commit is: by rounds that have records, and by new ones as long as there is time."""
        state, found, why, gives_up = None, None, "", False
        with ExitStack() as stack:
            stack.callback(self._keep)
            for num, is_second in enumerate(self.runs.is_second):
                if (record := self._process(num, stack)) is None:
                    break
                self.records[is_second].append(record)
                failed = [each.status != Status.ok for each in self.records[is_second]]
                if failed[-1]:
                    again = "; retry=failed measures them again" * disturbed.is_retried(record)
                    why = f"{record.label}: {record.status}: {record.reason}{again}"
                # Single ones are left out: time or memory may run out in any.
                if gives_up := failed == [True] * 2 or failed[-3:] == [True] * 3:
                    state = State.broken if is_second and all(failed) else State.cant_tell
                elif num % 2:
                    before, after = ([ComparedProcess.of(each) for each in part] for part in self.records)
                    state, found = judged(before, after, half)
                    if self.session is not None:  # else it takes no time
                        self.say(f"  {counted(num // 2 + 1, 'round')}: {difference(found)}")
                if state is not None:
                    break
        first, second = (each.commit for each in self.sides)
        paths = (f"{shown(self.folder)}/{_middle(part)}.json" for part in self.records if part)
        if not gives_up:  # it was decided, there were enough of them, or no time was left
            why = f"{why}; or give it a longer --budget" if why and (found is None or found.low is None) else ""
            if doubt := self._doubt(state):
                state, why = State.cant_tell, doubt
        return Told(second, first, state or State.cant_tell, why, found, tuple(paths))

    def _doubt(self, state: State | None) -> str:
        """Which processes were left out, where they may change `state` or explain that it is None; else empty."""
        # Of those of a side that may be too fast for the state: the slower ones are missing.
        part = [*self.records[0], *self.records[1]] if state is None else self.records[state == State.not_slower]
        if num := sum(each.status == Status.timeout for each in part):
            few = f"{num} of {counted(len(part), 'process')} took over timeout_s={self.cell.timeout_s:g}"
            return f"{few}, and only the faster ones count: raise it"
        known = [why for each in part if (why := disturbed.reason(each)) and state is None]
        few = f"other programs disturbed {len(known)} of {counted(len(part), 'process')}"
        return f"{few} ({known[0]}); retry=failed measures them again" if known else ""

    def _process(self, num: int, stack: ExitStack) -> Record | None:
        """The record of a process; None if it has none, and there is no time left for all that was asked of it."""
        side = self.sides[self.runs.is_second[num]]
        with side.tree.inside():
            item = side.ready.process(self.runs.cells[num], f"{side.commit.short}-r{num // 2}")
            done, _ = known(side.context, [item])
        stands = [each for each in done if not each.was_cut(item.cell.timeout_s)]
        if stands or time.monotonic() >= self.ends_s:
            return next(iter(stands), None)
        if self.session is None:
            with (second := self.sides[1]).tree.inside():  # where its hosts start, and its network is checked
                session = Session(second.context, second.ready, second.ready.planned, is_brief=True)
                session.check_s = max(1.0, self.ends_s - time.monotonic())
                self.session = stack.enter_context(session)
        with side.tree.inside():
            self.session.at(side.context, side.ready)
            left_s = max(1.0, self.ends_s - time.monotonic())
            limited = replace(item.cell, timeout_s=min(item.cell.timeout_s, left_s))
            record = self.session.measure(replace(item, cell=limited), left_s)
        return None if record.was_cut(item.cell.timeout_s) else record

    def _keep(self) -> None:
        """Has other commands find the records: the plan, and which of them are of which commit."""
        if records := [*self.records[0], *self.records[1]]:
            self.sides[1].context.write_plan([WantedCell(each.cell, each.name, each.label) for each in records])
            first, second = (f"{each.commit.short} {each.commit.subject}" for each in self.sides)
            save_comparison(self.runs, (first, second), records, self.folder)


def _middle(records: Sequence[Record]) -> str:
    """The name of the one whose speed is the median, the lower one of two; of the first one if none has a speed."""
    rates = {each.name: found for each in records if (found := ComparedProcess.of(each).rates)}
    ordered = sorted(rates, key=lambda name: median(rates[name])) or [records[0].name]
    return ordered[(len(ordered) - 1) // 2]
