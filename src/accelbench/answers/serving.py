"""How many requests per second are served within a limit: what every surface shows of it, computed here alone.

A probe is a process that served requests at one rate, with the verdict of `stats/regenerative.py`. The lowest sure fail
of a setting is above its capacity, and the highest sure pass below that one is within it.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.groups import Group, alike
from accelbench.answers.process import Process
from accelbench.judging.served import limit_text, missed_text
from accelbench.presentation import counted, significant
from accelbench.schema.cell import Cell, Server
from accelbench.schema.serialize import grouped
from accelbench.schema.vocab import Protocol, Status, Verdict


def setting_of(cell: Cell) -> Cell:
    """The cell without what its probes differ in: rate, duration, seed and repeat."""
    server = replace(cell.server, rate=Server.rate, duration_s=Server.duration_s)
    return replace(cell, seed=0, repeat=0, server=server)


def work_of(cell: Cell) -> Cell:
    """The same without how requests are batched: equal but for `CHOSEN_SETTINGS` in cells whose capacities compare."""
    asked = cell.server
    server = Server(latency_ms=asked.latency_ms, percentile=asked.percentile, generator=asked.generator)
    return replace(setting_of(cell), server=server)


def sure_bounds(verdicts: Iterable[tuple[float, Verdict]]) -> tuple[float | None, float | None]:
    """The rate of the second highest sure pass, or of the only one, and the lowest rate of a sure fail.

    The pass above, or of the same rate, confirms the second highest: the highest of many may be luck. A sure fail at
    its rate refutes a pass. Each is None if no probe says so. Both are None if a sure pass is above a sure fail: then
    higher rates are not worse, or a verdict is wrong.
    """
    told = list(verdicts)
    failed = {rate for rate, verdict in told if verdict == Verdict.fails}
    passed = sorted(rate for rate, verdict in told if verdict == Verdict.passes and rate not in failed)
    high = min(failed, default=None)
    if passed and high is not None and passed[-1] > high:
        return None, None
    return passed[-2:][0] if passed else None, high


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A process that served requests at one rate."""

    rate: float  # requests per second, as they were due
    verdict: Verdict  # whether the percentile of the setting was within its limit
    seed: int  # of the arrivals
    cell: MeasuredCell
    process: Process  # of the cell


@dataclass(frozen=True)
class Capacity:
    """How many requests per second one setting serves within its limit."""

    what: str  # the model, what is done with it, on what, and where if others did the same elsewhere
    setting: str  # such as `fp32 openvino, batches of at most 8, 2 ms delay`
    probes: list[Probe]  # at least one, by rising rate
    low: float | None  # see `sure_bounds`
    high: float | None
    invalid: Sequence[float] = ()  # the rates of further processes, which were invalid, mostly as requests came late

    @property
    def limit_text(self) -> str:
        """The limit, such as `p99 at most 50 ms`."""
        return limit_text(self.probes[0].process.own_row)

    def number(self, column: str) -> float | None:
        """A number of the first sure pass at `low`, by its column of `cells.csv`; None without one, or if unknown."""
        return self.passed[0].process.number(column) if self.low is not None else None

    @property
    def passed(self) -> list[Probe]:
        """The sure passes at `low` and above."""
        low, high = self.low or math.inf, self.high or math.inf
        return [each for each in self.probes if each.verdict == Verdict.passes and low <= each.rate < high]

    @property
    def is_confirmed(self) -> bool:
        """Whether two processes with different arrivals passed at `low` or above."""
        return len({each.seed for each in self.passed}) > 1

    @property
    def rates_text(self) -> str:
        """The requests per second in words, such as `412 to 431` or `at least 412`; empty if nothing is sure."""
        low, high = significant(self.low), significant(self.high)
        if self.low is None:
            return "" if self.high is None else f"fewer than {high}"
        return f"at least {low}" if self.high is None else f"{low} to {high}"

    @property
    def how_sure(self) -> str:
        """The word, with what others at this rate said: the highest of many passes, or the rare valid one, is luck."""
        rate = self.high if self.low is None else self.low
        if rate is None:
            return Verdict.unknown
        rates = {rate, *(probe.rate for probe in self.passed)}
        verdicts = [probe.verdict for probe in self.probes if probe.rate in rates]
        num_invalid = sum(each in rates for each in self.invalid)
        is_sure = (self.low is None or self.is_confirmed) and num_invalid <= len(verdicts)
        words = ["sure" if is_sure else "likely"]
        if self.is_confirmed:
            words.append(f"{significant(rate)} confirmed with another seed")
        elif self.low is not None:
            words.append(
                "another seed can't tell" if Verdict.unknown in verdicts else "not confirmed with another seed"
            )
        if num_invalid:
            words.append(f"{num_invalid} of {num_invalid + len(verdicts)} processes there were invalid")
        return "; ".join(words)

    @property
    def sentence(self) -> str:
        """Such as `fp32, one at a time: 412 to 431 requests/s with p99 at most 50 ms (sure; 412 confirmed ...)`."""
        if self.rates_text:
            return f"{self.setting}: {self.rates_text} requests/s with {self.limit_text} ({self.how_sure})"
        passed, failed = ([p.rate for p in self.probes if p.verdict == v] for v in (Verdict.passes, Verdict.fails))
        if passed and failed:
            said = f"a probe at {significant(failed[0])} requests/s failed, and one at {significant(passed[-1])} passed"
            return f"{self.setting}: can't tell which rates keep {self.limit_text}: {said}"
        rates = " to ".join(dict.fromkeys(significant(self.probes[i].rate) for i in (0, -1)))
        tried = f"{counted(len(self.probes), 'probe')} at {rates} requests/s can't tell whether {self.limit_text}"
        missed = f"at {significant(self.probes[0].rate)}, {missed_text(self.probes[0].process.own_row)}"
        return f"{self.setting}: {tried} ({missed}); give best --serve a longer --budget"


def capacities(cells: Iterable[MeasuredCell]) -> list[Capacity]:
    """What the probes among the cells tell of each setting: those that compare stand together, the best first."""
    made = []
    for group, of_work in alike((cell for cell in cells if cell.cell.protocol == Protocol.server), work_of):
        by_setting = grouped(of_work, lambda cell: replace(cell, cell=setting_of(cell.cell)).measured_key)
        of_group = [capacity for of_one in by_setting.values() if (capacity := _capacity(group, of_one)) is not None]
        made += sorted(of_group, key=lambda capacity: (-(capacity.low or 0.0), -(capacity.high or 0.0)))
    return made


def best_settings(found: Iterable[Capacity]) -> list[Capacity]:
    """The best setting of each workload, of `capacities`."""
    best: dict[str, Capacity] = {}
    for each in found:
        best.setdefault(each.what, each)
    return list(best.values())


def _capacity(group: Group, cells: Sequence[MeasuredCell]) -> Capacity | None:
    """What the cells of one setting tell; None if none of their processes is ok."""
    probes: dict[Hashable, Probe] = {}  # a cell may be of several sweeps
    invalid: dict[Hashable, float] = {}
    for cell in cells:
        for process in cell.processes:
            key, rate = (process.name, process.started_at), process.cell.server.rate
            serving = process.measurement.serving if process.measurement else None
            if process.outcome == Status.invalid:
                invalid[key] = rate
            elif process.is_ok and serving is not None:
                verdict = serving.verdict or Verdict.unknown
                probes[key] = Probe(rate=rate, verdict=verdict, seed=serving.seed, cell=cell, process=process)
    if not probes:
        return None
    ordered = sorted(probes.values(), key=lambda probe: probe.rate)
    first = ordered[0].cell
    batch, server = first.cell.batch_size, first.cell.server
    words = [group.setting(first), "one at a time" if batch == 1 else f"batches of at most {batch}"]
    words += [f"{server.max_delay_ms:g} ms delay"] if server.max_delay_ms else []
    words += [f"{server.workers} workers"] if server.workers > 1 else []
    bounds = sure_bounds((probe.rate, probe.verdict) for probe in ordered)
    return Capacity(group.what, ", ".join(words), ordered, *bounds, list(invalid.values()))
