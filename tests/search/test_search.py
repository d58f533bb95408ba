import io
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from accelbench import pipeline
from accelbench.answers.jobs import jobs
from accelbench.errors import UserError
from accelbench.isolation.hosts import Hosts
from accelbench.project import RECORDS
from accelbench.report import read
from accelbench.schema import plan_file, record
from accelbench.schema.cell import Options, Precision, Protocol, Status
from accelbench.schema.plan_file import read_race
from accelbench.search import largest_batch
from accelbench.search.base import BaseSearch
from accelbench.search.largest_batch import next_batch
from accelbench.search.race import Goal, search
from accelbench.search.top import answer, folder_of, questions
from accelbench.sweep import run
from accelbench.sweep.run import SweepResult
from accelbench.sweep.terminal import SweepProgress
from fakes import faulty_host, make_cell, make_measurement, make_options, make_record
from report.conftest import Maker

FOLDER = Path("runs/mine")  # in the project
OPTIONS = make_options(out="runs/mine", tracking="mlflow")
GOAL = Goal(by="throughput", latency_ms=None, margin=0.02, budget_s=60.0)


@pytest.fixture
def searched(shared, project, monkeypatch):
    """Searches; returns what was printed, and race.json. Each record takes a second."""
    monkeypatch.setattr(BaseSearch, "now", staticmethod(lambda: len(written())))

    def searched(cells, goal=GOAL, status=0):
        console = Console(file=io.StringIO(), width=300)
        assert search(cells, OPTIONS, goal, console, shared) == status
        return console.file.getvalue(), read_race(FOLDER)

    return searched


def batches(*sizes, fault="batch decides", **changes):
    return [make_cell(fault, batch_size=size, **changes) for size in sizes]


def written():
    return {path.name: path.stat().st_mtime_ns for path in FOLDER.glob(RECORDS)}


def test_the_best_is_named_and_only_full_measurements_are_published_and_nothing_is_measured_again(searched):
    text, race = searched(batches(1, 8, 32))
    assert "mlp-cpu-fp32-b32-infer: fastest, 3,200 samples/s" in text
    assert re.search(r"It is 4(\.\d+)? times as fast as \S+-b8-infer \(sure: [0-9.]+ to [0-9.]+ times\)", text)
    assert all(line in text for line in race.answers)
    (sweep,) = read.read_all(FOLDER)
    published = {process.name for process in sweep.planned}
    assert sorted([*race.short, *published]) == sorted(name.removesuffix(".json") for name in written())
    assert {reported.cell.batch_size for reported in sweep.cells} == {8, 32}
    assert all(reported.cell.window == make_cell().window for reported in sweep.cells)
    (best,) = jobs(sweep.cells)
    assert (best.fastest.cell.batch_size, best.lead.word) == (32, "sure")
    (note,) = sweep.notes
    assert f"{len(race.short)} records in runs/mine are from a search's short windows" in note
    before = written()
    assert searched(batches(1, 8, 32))[1] == race
    assert written() == before
    (FOLDER / "race.json").write_text('{"answers": ["of an earlier release"], "cells": []}')
    assert read.read_all(FOLDER)[0].answers == ["of an earlier release"]
    assert re.search("-b64-infer: fastest, ", searched(batches(1, 8, 32, 64))[0])
    assert before.items() <= written().items()


def test_an_interrupted_search_keeps_what_it_has_and_goes_on(searched, monkeypatch):
    show = SweepProgress.finish

    def interrupt(self, race):
        show(self, race)
        if len(written()) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(SweepProgress, "finish", interrupt)
    with pytest.raises(KeyboardInterrupt, match="^Interrupted; every finished process has its record, in runs/mine$"):
        searched(batches(1, 8, 32))
    before = written()
    assert len(before) == 2
    assert read_race(FOLDER) is not None
    monkeypatch.setattr(SweepProgress, "finish", show)
    _, race = searched(batches(1, 8, 32))
    assert before.items() <= written().items()
    assert {name.removesuffix(".json") for name in before} <= set(race.short)


def test_the_budget_ends_a_search_without_a_claim(searched):
    goal = replace(GOAL, budget_s=8.0)  # too little for five full processes of each
    text, _ = searched([make_cell(threads=threads) for threads in (1, 2)], goal)
    assert re.search(r"It is [0-9.]+ times as fast as .* \(can't tell: too few processes in full\)", text)
    assert "To go on: run the same command with out=runs/mine" in text
    assert len(written()) == 8
    assert "fastest so far, " in text
    cells = batches(64, 1, 8, 32)  # they are tried in this order
    text, race = searched(cells, replace(GOAL, budget_s=2.0), status=1)
    assert f"{cells[0].label} and others: no cell can be recommended" in text
    assert f"Left out: {4 - len(race.short)} not tried." in text


def test_cells_that_fail_or_exceed_the_limit_of_latency_are_out_with_the_reason(searched):
    # The median step takes a millisecond for each sample of the batch.
    text, _ = searched(batches(1, 8, 32, 64, fault="batch decides, not 32"), replace(GOAL, latency_ms=10.0))
    assert re.search("-b8-infer: fastest, ", text)
    assert "Left out: 1 failed, 1 over the limit." in text
    assert "failed: ValueError: a bad batch" in text
    (bad,) = [record for record in plan_file.read_planned(FOLDER) if record.status != Status.ok]
    assert bad.cell.batch_size == 32


def test_a_process_that_the_budget_cuts_off_says_nothing_about_its_cell(searched):
    goal = replace(GOAL, budget_s=2.0)
    with pytest.raises(UserError, match="too short"):
        searched([make_cell("hang", batch_size=size) for size in (1, 8)], goal)
    (cut,) = [record.read(path) for path in FOLDER.glob(RECORDS)]
    assert cut.status == Status.timeout
    assert cut.cell.timeout_s < 60
    assert plan_file.read_plan(FOLDER).cells == []


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([make_cell()], "--search: these settings make only one cell: give lists of values"),
        ([make_cell(), make_cell(repeat=1)], "repeat, repeats: --search decides the number of processes"),
        (batches(1, 8, protocol=Protocol.fit), "protocol=fit: does not time single steps"),
        (batches(1, 8, protocol=Protocol.server), "protocol=server: --search comp"),
    ],
)
def test_a_grid_that_cannot_be_searched_is_told(cells, message, searched):
    with pytest.raises(UserError, match=message):
        searched(cells, replace(GOAL, latency_ms=5.0))


@pytest.mark.parametrize("limit", [3, 100, 1000, 33_333, 1 << 19])
@pytest.mark.parametrize("fixed", [0, 100, 1000])
def test_the_limit_is_found_within_an_eighth_and_no_try_needs_much_more(limit, fixed):
    fits, fails, room, tried = 0, math.inf, 2.0, [1]
    while tried[-1] is not None:
        if tried[-1] <= limit:
            fits, room = tried[-1], (fixed + limit) / (fixed + tried[-1])
        else:
            fails = tried[-1]
        tried.append(next_batch(fits, fails, room))
    assert fits <= limit < fails
    assert fails - fits <= max(1, fits / 8)
    assert len(tried) - 1 <= limit.bit_length() + (4 if not fixed else 20)
    assert max(tried[:-1]) <= max(limit + 1, 1.14 * limit)


ANYWHERE = make_options(tracking="mlflow", out=None)


def test_when_the_time_is_over_the_largest_that_fits_is_told(project, monkeypatch):
    def swept(cells, options, console, *, hosts, show):
        (cell,) = cells
        assert (cell.protocol, cell.steps, cell.breakdown_s, options.tracking) == (Protocol.steps, 1, 0, "none")
        assert options.out in (None, str(project / "runs/mine/new"))
        measured = make_measurement(peak_host_bytes=10**9 + cell.batch_size * 2 * 10**8)
        record = make_record(cell, measurement=measured, wall_s=0.5 * cell.batch_size)
        return SweepResult(project / "runs/mine/new", [record])

    monkeypatch.setattr(largest_batch.run, "run", swept)
    console = Console(file=io.StringIO(), width=200)
    assert largest_batch.find(make_cell(batch_size=4), ANYWHERE, console, None, 7.0) == 0
    assert console.file.getvalue().splitlines()[1:] == [
        "4 samples, 2 s: fits, which takes 1.8 GB",
        "8 samples, 4 s: fits, which takes 2.6 GB",
        "The largest batch that fits: 8, which takes 2.6 GB; 16 was not tried: "
        "it takes about 8 s, longer than the rest of --budget (default: 1m).",
        "Records of the tries: runs/mine/new",
    ]


def test_a_try_is_a_process_of_one_host_that_takes_the_memory_that_is_told(project):
    console = Console(file=io.StringIO(), width=200)
    skipped = make_cell(precision=Precision.tf32)  # which no CPU has
    with pytest.raises(UserError, match="--largest-batch: this machine skips .*tf32"):
        largest_batch.find(skipped, ANYWHERE, console, None, 60.0)
    assert console.file.getvalue() == ""
    with Hosts(faulty_host) as hosts:
        assert largest_batch.find(make_cell("tell peak", batch_size=32), ANYWHERE, console, hosts, 60.0) == 0
        assert len(hosts._hosts) == 1
    assert "The largest batch that fits: 64, which takes 1.5 GB; more" in console.file.getvalue()
    assert len(list((project / "runs").glob("*/*-*.json"))) == 2


def pair(model, rates, wall_s=1.0, **other):
    maker = Maker()
    cells = [maker.cell(model), maker.cell(model, **other or {"precision": "bf16"})]
    return [replace(maker.ok(cell, rate), wall_s=wall_s) for cell, rate in zip(cells, rates, strict=True)]


def test_the_cheapest_questions_are_asked_first_and_of_these_the_closest(tmp_path):
    def asked(budget_s, *records):
        sweep = read.read(Maker().suite(tmp_path, list(records)))
        return [question.first.cell.model.name for question in questions([sweep], budget_s)]

    # Five processes of each of two cells of 1 s take 10 s; of 0.1 s they take 1 s.
    records = [
        *pair("dear", (10, 20), 9.0),
        *pair("far", (10, 20)),
        *pair("near", (10, 11)),
        *pair("fast", (1, 2), 0.1),
    ]
    assert asked(1000.0, *records) == ["fast", "near", "far", "dear"]
    assert asked(12.0, *records) == ["fast", "near"]
    assert asked(0.0, *records) == []
    sizes = pair("cnn", (320, 80), 0.1, batch_size=32)  # which of two batch sizes is faster is a question too
    assert asked(1000.0, *sizes, *pair("mlp", (1, 2))) == ["cnn", "mlp"]


def test_after_it_is_answered_the_report_is_sure_or_says_that_it_cannot_tell(project, shared, monkeypatch):
    cells = [make_cell(), make_cell(options=Options(channels_last=True))]
    console = Console(file=io.StringIO(), width=200)
    run.run(cells, make_options(out=None), console, project / "results" / "test", hosts=shared)
    (question,) = questions(read.read_all(project / "results"), 1000.0)
    folder = project / "confirmed"
    done = answer([question], folder, console, shared)
    assert [record.status for record in done] == [Status.ok] * 10
    assert answer([question], folder, console, shared) == done
    sweeps = read.read_all(project / "results")
    assert list(map(folder_of, questions(sweeps, 1000.0))) == [folder_of(question)]  # it keeps what it has
    assert len(sweeps[0].cells) == 2
    (found,) = jobs(sweeps[0].cells)
    assert found.lead.is_interleaved
    assert "too few blocks" not in found.lead.how_sure
    assert [cell.num_processes for cell in found.cells] == [5, 5]
    assert "Question 1 of 1" in console.file.getvalue()
    assert f"is {cells[0].label} or {cells[1].label} faster?" in console.file.getvalue()  # the reference comes first

    monkeypatch.setattr(pipeline.params, "suite_names", lambda root: ["test"])
    monkeypatch.setattr(pipeline.params, "confirm_s", lambda root: 0.0)  # no question is asked any more
    pipeline.confirm_best(project, console, shared)
    assert len(list(folder.glob("*/*-*.json"))) == 10  # the records stay
    assert [cell.num_processes for cell in read.read_all(project / "results")[0].cells] == [1, 1]
