"""No surface says something else than another one: of random records, every speed and every ratio that any shows."""

import csv
import dataclasses
import io
import json
import math
import re
from collections import defaultdict
from statistics import geometric_mean, median

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

import accelbench
from accelbench.answers.cells import Process, process_rows
from accelbench.answers.jobs import REFERENCE, jobs
from accelbench.cli import main
from accelbench.report import read
from accelbench.report.contents import compose
from accelbench.report.export import cell_rows
from accelbench.report.overview import picture_of
from accelbench.schema import serialize
from accelbench.schema.cell import Mode
from accelbench.schema.measurement import Block
from accelbench.sinks.mlflow_fields import ALONE, NOTE, of_cells
from accelbench.sweep import terminal
from answers.conftest import maker
from report.conftest import ENVIRONMENT

NUMBER = r"[\d,]+(?:\.\d+)?(?:e[+-]\d+)?"
SENTENCE = re.compile(
    rf"(?P<first>[^:;.●○?=]+ b\d+) (?:is fastest here|measured fastest|gives), (?P<rate>{NUMBER}) samples/s.*?; "
    rf"(?P<ratio>{NUMBER}) times as fast as (?P<second>[^;]+ b\d+)"
    r"(?: \((?P<word>sure|likely)\)|, but (?P<not>can't tell))"
)
PLACES = [
    ENVIRONMENT,
    {**ENVIRONMENT, "machine": {**ENVIRONMENT["machine"], "cpu_name": "Other CPU"}},
    {**ENVIRONMENT, "versions": {"python": "3.12.1", "torch": "2.10.0"}},
]


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A cell to be measured: which it is, its speed, how its processes scatter, and what is wrong with them."""

    precision: str
    batch_size: int
    place: int
    rate: float
    scatter: list[float]
    num_blocks: int = 8
    is_disturbed: bool = False


RATES = [100.0, 100.0, 101.0, 118.0, 130.0, 170.0, 640.0]
FIELDS = {"precision": ["fp32", "bf16", "fp16"], "batch_size": [8, 32], "place": [0, 1, 2], "rate": RATES}
FIELDS |= {"num_blocks": [1, 2, 8, 8, 8], "is_disturbed": [True, *[False] * 4]}
DRAWN = {name: st.sampled_from(values) for name, values in FIELDS.items()}
DRAWN["scatter"] = st.lists(st.sampled_from([1.0, 1.0, 1.01, 0.98, 1.2]), min_size=1, max_size=12)
CELLS = st.lists(
    st.builds(Drawn, **DRAWN),
    min_size=1,
    max_size=5,
    unique_by=lambda each: (each.precision, each.batch_size, each.place),
)


def record_of(drawn, repeat, minute):
    rate = drawn.rate * drawn.scatter[repeat % len(drawn.scatter)]
    cell = maker.cell("cnn", precision=drawn.precision, batch_size=drawn.batch_size, mode=Mode.infer, repeat=repeat)
    step_s = cell.batch_size / rate
    blocks = [
        Block(num_steps=10, num_samples=10 * cell.batch_size, seconds=10 * step_s * (1 + 0.01 * (i % 3 - 1)))
        for i in range(drawn.num_blocks)
    ]
    done = maker.ok(cell, rate, blocks=blocks, latency_s=[])
    done = maker.beside_others(done) if drawn.is_disturbed else done
    identity = serialize.digest([cell.id, drawn.place])
    started_at = f"2026-11-20T{10 + minute // 60}:{minute % 60:02}:00+00:00"
    return dataclasses.replace(done, identity=identity, started_at=started_at, environment=PLACES[drawn.place])


def write(root, found, is_interleaved=True, is_confirmed=False):
    """The records of a suite, with a plan, and of the processes that confirm its answers."""
    order = [(i, each) for i in range(12) for each in found if i < len(each.scatter)]
    order = order if is_interleaved else sorted(order, key=lambda pair: found.index(pair[1]))
    planned = [record_of(each, i, minute) for minute, (i, each) in enumerate(order)]
    maker.suite(root / "results", planned)
    confirmed = [(i, each) for i in range(5) for each in found if is_confirmed and each.place == 0]
    if confirmed:
        later = [record_of(each, i, 120 + minute) for minute, (i, each) in enumerate(confirmed)]
        maker.suite(root / "confirmed", later)
    return planned


class Said:
    """What the surfaces say: of each cell its speeds, and of each pair its ratios and words."""

    def __init__(self, cells) -> None:
        self.names = {}
        self.speeds, self.pairs = defaultdict(dict), defaultdict(dict)
        for group in jobs(cells):
            for cell in group.cells:
                self.names[group.where, group.text(cell)] = cell.measured_key

    def speed(self, surface, key, value) -> None:
        self.speeds[key].setdefault(surface, number(value))

    def pair(self, surface, first, second, ratio, word) -> None:
        value = number(ratio)
        if first > second:
            first, second, value = second, first, 1 / value
        self.pairs[first, second].setdefault(surface, (value, word))

    def text(self, surface, where, text) -> None:
        for found in SENTENCE.finditer(" ".join(text.split())):
            first, second = (self.names[where, found[end].split(": ")[-1].strip()] for end in ("first", "second"))
            self.speed(surface, first, found["rate"])
            self.pair(surface, first, second, found["ratio"], found["word"] or found["not"])

    def lines(self, surface, text) -> None:
        """Those of a text that begin with a job's name, and have its place if there are several."""
        for where in {where for where, _ in self.names}:
            for line in text.splitlines():
                if line.strip().startswith("cnn") and (where == "" or f", {where}:" in line):
                    self.text(surface, where, line)

    def check(self) -> None:
        for key, found in self.speeds.items():
            assert max(found.values()) / min(found.values()) - 1 < 0.006, (key, found)  # they show three digits
        for key, found in self.pairs.items():
            ratios, words = [ratio for ratio, _ in found.values()], {word for _, word in found.values()}
            assert max(ratios) / min(ratios) - 1 < 0.011, (key, found)
            assert len(words) == 1, (key, found)
            first, second = (next(iter(self.speeds[each].values())) for each in key)
            assert first / second == pytest.approx(ratios[0], rel=0.02), (key, found)


def number(value) -> float:
    return float(str(value).replace(",", ""))


def of_every_cell(said, page) -> None:
    """The page's table of every cell: its speeds, and how each stands to the reference of its batch."""
    references = references_of(page.jobs)
    for row in rows_of(page.cells):
        said.speed("every cell", row["cell"], row["samples_per_s"])
        ratio, _, word = (row["against"] or "").partition(" times, ")
        assert bool(word) == (row["cell"] in references)
        if word:
            said.pair("every cell", row["cell"], references[row["cell"]], ratio, word)
        else:
            assert ratio in ("", REFERENCE)


def rows_of(cells):
    return [dict(zip(cells["names"], values, strict=True)) for values in cells["rows"]]


def references_of(of_groups):
    gains = [group.gain_of(cell) for group in of_groups for cell in group.cells]
    return {gain.first.measured_key: gain.second.measured_key for gain in gains if gain}


def of_first_screen(said, page) -> None:
    keys = {row["name"]: row["cell"] for row in rows_of(page.cells)}
    for gain in (gain for job in picture_of(page.jobs, "")["jobs"] for gain in job["gains"]):
        first, second = keys[gain["cell"]], keys[gain["today"]["cell"]]
        said.pair("picture", first, second, gain["exact"], gain["word"])
        said.speed("picture", first, gain["speed"].removesuffix(" samples/s"))
        said.speed("picture", second, gain["today"]["speed"].removesuffix(" samples/s"))


def of_csv(said, root, sweeps) -> None:
    rows = list(cell_rows(sweeps))
    processes = list(process_rows(cell for sweep in sweeps for cell in sweep.cells))
    for row in rows:
        rates = [each["samples_per_s"] for each in processes if each["cell"] == row["cell"] and each["counts"]]
        assert row["num_processes"] == len(rates)
        known = (median(rates), geometric_mean(rates))
        assert any(math.isclose(row["samples_per_s"], each, rel_tol=1e-9) for each in known)
        said.speed("cells.csv", row["cell"], row["samples_per_s"])
    assert len({row["cell"] for row in rows}) == len(rows)


def of_mlflow(said, cells) -> None:
    by_key = {each.measured_key: each for each in cells}
    references = references_of(jobs(cells))
    for run in of_cells(cells):
        key = run.tags["cell"]
        if by_key[key].speed:
            assert run.metrics["speed"] == pytest.approx(by_key[key].speed, rel=0.005)
        ratio, _, rest = run.tags[NOTE].removeprefix("**").partition(" times as fast as ")
        assert bool(rest) == (key in references)
        if rest:
            assert f"({run.tags['word']})**" in rest
            said.pair("MLflow", key, references[key], ratio, run.tags["word"])
        else:
            assert run.tags["word"] in (REFERENCE, ALONE, by_key[key].outcome)


def examined(root, found, is_interleaved=True, is_confirmed=False) -> Said:
    records = write(root, found, is_interleaved, is_confirmed)
    sweeps = read.read_all(root / "results")
    cells = [cell for sweep in sweeps for cell in sweep.cells]
    said = Said(cells)
    page = compose(sweeps)
    of_every_cell(said, page)
    of_first_screen(said, page)
    of_csv(said, root, sweeps)
    of_mlflow(said, cells)
    results = accelbench.read(root / "results")
    for each, key in zip(results, results.to_frame()["cell"], strict=True):
        said.speed("Python", key, each.samples_per_s)
    said.lines("Python's answer", repr(results))
    if not (root / "confirmed").exists():
        console = Console(file=io.StringIO(), width=1000)
        terminal.show_answer([Process.of(record) for record in records], "runs/mine", console)
        said.lines("a sweep's end", console.file.getvalue())
    built = maker.report(root)
    (drawn,) = re.findall(r'id="gains">(.*?)</script>', (built / "index.html").read_text())
    assert json.loads(drawn)["jobs"] == json.loads(json.dumps(picture_of(page.jobs, "")["jobs"]))
    for row in csv.DictReader(io.StringIO((built / "cells.csv").read_text())):
        said.speed("cells.csv on disk", row["cell"], row["samples_per_s"])
    assert json.loads((built / "metrics.json").read_text())["ok"] == sum(cell.is_ok for cell in cells)
    for each in page.jobs:
        said.text("answers", each.where, f"{each.data}: {each.sentence}")
    said.check()
    return said


def test_no_two_surfaces_disagree(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    rates = {("fp32", 32): 100.0, ("bf16", 32): 170.0, ("fp16", 32): 101.0, ("bf16", 8): 118.0, ("fp32", 8): 640.0}
    found = [Drawn(word, size, 0, rate, [1.0, 1.1]) for (word, size), rate in rates.items()]
    said = examined(tmp_path, found)
    assert len(said.pairs) > 1
    assert main(["best", "results"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    said.text("best", "", text)
    for name in ("PyTorch fp32 b8", "PyTorch bf16 b32"):
        said.speed("bars", said.names["", name], re.search(rf"{name} ━+ ({NUMBER}) samples/s", text)[1])
    said.check()


@pytest.mark.slow
@given(found=CELLS, is_interleaved=st.booleans(), is_confirmed=st.booleans())
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_two_surfaces_disagree_about_two_hundred_sets_of_records(tmp_path_factory, **drawn) -> None:
    examined(tmp_path_factory.mktemp("said"), **drawn)
