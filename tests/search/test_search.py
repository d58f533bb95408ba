import contextlib
import dataclasses
import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from accelbench.answers.jobs import jobs
from accelbench.cli import main
from accelbench.errors import UserError
from accelbench.isolation import hosts as isolated
from accelbench.project import RECORDS
from accelbench.report import read
from accelbench.schema import plan_file, record
from accelbench.schema.cell import Protocol, Status
from accelbench.schema.plan_file import read_race
from accelbench.search.base import BaseSearch
from accelbench.search.race import Goal, search
from accelbench.sweep.terminal import SweepProgress
from fakes import make_cell, make_options

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


def test_equal_cells_end_with_the_budget_and_no_claim(searched):
    goal = dataclasses.replace(GOAL, budget_s=8.0)  # too little for five full processes of each
    text, _ = searched([make_cell(threads=threads) for threads in (1, 2)], goal)
    assert re.search(r"It is [0-9.]+ times as fast as .* \(can't tell: too few processes in full\)", text)
    assert "To go on: run the same command with out=runs/mine" in text
    assert len(written()) == 8
    assert "fastest so far, " in text


def test_cells_that_fail_or_exceed_the_limit_of_latency_are_out_with_the_reason(searched):
    # The median step takes a millisecond for each sample of the batch.
    text, _ = searched(batches(1, 8, 32, 64, fault="batch decides, not 32"), dataclasses.replace(GOAL, latency_ms=10.0))
    assert re.search("-b8-infer: fastest, ", text)
    assert "Left out: 1 failed, 1 over the limit." in text
    assert "failed: ValueError: a bad batch" in text
    (bad,) = [record for record in plan_file.read_planned(FOLDER) if record.status != Status.ok]
    assert bad.cell.batch_size == 32


def test_a_process_that_the_budget_cuts_off_says_nothing_about_its_cell(searched):
    goal = dataclasses.replace(GOAL, budget_s=2.0)
    with pytest.raises(UserError, match="too short"):
        searched([make_cell("hang", batch_size=size) for size in (1, 8)], goal)
    (cut,) = [record.read(path) for path in FOLDER.glob(RECORDS)]
    assert cut.status == Status.timeout
    assert cut.cell.timeout_s < 60
    assert plan_file.read_plan(FOLDER).cells == []


def test_cells_are_tried_in_the_order_in_which_they_were_asked_for(searched):
    cells = batches(64, 1, 8, 32)
    text, race = searched(cells, dataclasses.replace(GOAL, budget_s=2.0), status=1)
    assert f"{cells[0].label} and others: no cell can be recommended" in text
    assert f"Left out: {4 - len(race.short)} not tried." in text


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
        searched(cells, dataclasses.replace(GOAL, latency_ms=5.0))


@pytest.mark.slow
def test_real_cells_race_and_a_search_goes_on(project, hosts, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "300")
    windows = ["window.warmup_s=0.01", "window.measure_s=0.05", "window.block_s=0.005", "window.latency_s=0.01"]
    words = ["model=mlp", "mode=infer", "batch_size=1,64", "threads=1", "breakdown_s=0", *windows, "out=runs/mine"]
    monkeypatch.setattr(isolated, "Hosts", lambda: contextlib.nullcontext(hosts))
    assert main(["best", "--search", "--budget", "60s", *words]) == 0
    assert "-b64-infer-1thread: fastest, " in capsys.readouterr().out
    before = written()
    assert main(["best", "--search", "--budget", "60s", *words]) == 0
    assert written() == before
