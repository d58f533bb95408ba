"""Reports of more records than one page shows; the limits are lowered, so that few records are many."""

import csv
import json
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from accelbench.answers.best import choices
from accelbench.answers.groups import groups
from accelbench.report import build
from accelbench.report.large import newest
from accelbench.report.large.summaries import summarise_all
from accelbench.report.read import read_all, with_best_ceilings
from report import many


def sweeps(results, maker, shift_s=0):
    """Two sweeps of a cell in three processes, one process of each of other cells, and a cell on two devices.

    The second one's machine has a clock that is `shift_s` ahead; both have ceilings, and the second one higher ones.
    """
    for number, name in enumerate(("earlier", "later")):
        environment = {
            **many.ENVIRONMENT,
            "ceilings": {**many.CEILINGS.to_json(), "flops_per_s": {"fp32": 1e11 * (1 + number)}},
        }
        made = []
        cells = [maker.cell("cnn", suite=name, repeat=repeat) for repeat in range(3)]
        cells += [maker.cell(model, suite=name) for model in ("mlp", "lstm")]
        cells += [maker.cell("mlp", suite=name, devices=2, batch_size=256, scaling="weak")]
        start = datetime.fromisoformat("2026-11-20T18:00:00+00:00") + timedelta(hours=number, seconds=shift_s * number)
        for at, cell in enumerate(cells):
            done = many._finished(maker, cell, 1000.0 + 10 * at + number)
            at_time = (start + timedelta(seconds=3 * at)).isoformat()
            made.append(replace(done, started_at=at_time, environment=environment))
        maker.suite(results, made, study=None)
    return results


def rows(folder, name="cells.csv"):
    with (folder / name).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def few(monkeypatch):
    """Lowers the limits."""
    monkeypatch.setattr(newest, "MANY", 5)
    monkeypatch.setattr(newest, "SHOWN", 4)


def test_the_page_judges_by_the_ceilings_of_all_records(tmp_path, maker):
    results = sweeps(tmp_path / "results", maker)
    known = summarise_all(results, {}).ceilings
    alone = read_all(results / "earlier")  # its records have lower ceilings than those of the other sweep
    (judged,) = with_best_ceilings(alone, known)
    (whole,) = [sweep for sweep in read_all(results) if sweep.folder == "earlier"]
    shares = [[each.row["mfu"] for each in sweep.planned] for sweep in (alone[0], judged, whole)]
    assert shares[0] != shares[1] == shares[2]


def test_every_process_is_the_same_as_of_few_records(tmp_path, maker, monkeypatch):
    results = sweeps(tmp_path / "results", maker)
    build.build(results, tmp_path / "whole")
    monkeypatch.setattr(newest, "MANY", 5)
    build.build(results, tmp_path / "large")
    whole, large = rows(tmp_path / "whole", "processes.csv"), rows(tmp_path / "large")
    assert len(whole) == 12
    assert [{name: row[name] for name in row if name not in ("cell", "counts")} for row in whole] == [
        {name: row[name] for name in row if name != "scaling_efficiency"} for row in large
    ]
    assert any(row["mfu"] for row in whole)


@pytest.mark.usefixtures("few")
def test_the_page_shows_the_newest_cells_and_the_means_of_all_and_says_so(tmp_path, maker):
    results = sweeps(tmp_path / "results", maker)
    page = build.build(results, tmp_path / "report").read_text()
    assert (
        "12 records of 2 sweeps are too many for one page: it shows the means of all, and the newest 4 of the 6 cells "
        "of the newest sweep, later. cells.csv has every record."
    ) in page
    assert "All sweeps: means of the processes" in page
    assert len(rows(tmp_path / "report")) == 12
    with (tmp_path / "report" / "aggregates.csv").open(newline="") as file:
        means = {row["model"] + row["options"]: row for row in csv.DictReader(file)}
    cnn = means["cnn"]
    rates = [float(row["samples_per_s"]) for row in rows(tmp_path / "report") if row["model"] == "cnn"]
    assert cnn["num_processes"] == "6"
    assert float(cnn["samples_per_s"]) == pytest.approx(sum(rates) / 6)
    assert float(cnn["samples_per_s_low"]) < float(cnn["samples_per_s"]) < float(cnn["samples_per_s_high"])
    assert means["lstm"]["num_processes"] == "2"


@pytest.mark.usefixtures("few")
def test_a_record_that_cant_be_read_is_named(tmp_path, maker):
    results = sweeps(tmp_path / "results", maker)
    spoilt = next((results / "earlier").glob("*-*.json"))
    spoilt.write_text("{")
    said = []
    page = build.build(results, tmp_path / "report", say=said.append)
    assert any(spoilt.name in note for note in said)
    assert spoilt.name in page.read_text()
    assert len(rows(tmp_path / "report")) == 12


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    "spoil",
    [
        {"record": "../../elsewhere"},
        {"record": "0123456789ab-01234567"},
        {"cell": {"suite": 3}},
        {"cell_id": "0" * 12},
        {"title": 3},
    ],
)
def test_of_a_plan_with_an_entry_that_cant_be_read_the_records_are_shown(spoil, tmp_path, maker):
    results = sweeps(tmp_path / "results", maker)
    path = results / "earlier" / "plan.json"
    values = json.loads(path.read_text())
    (values if "title" in spoil else values["cells"][2]).update(spoil)
    path.write_text(json.dumps(values))
    found = summarise_all(results, {}).found
    assert len(found) == 12
    assert all(each.started_at for each in found)  # each has its record


def test_few_records_are_shown_as_ever(tmp_path, maker):
    results = sweeps(tmp_path / "results", maker)
    assert not newest.is_many(results)
    page = build.build(results, tmp_path / "report").read_text()
    assert "too many for one page" not in page
    assert not (tmp_path / "report" / "aggregates.csv").exists()


@pytest.mark.parametrize("shift_s", [3600, -3600])
def test_a_clock_that_is_an_hour_off_changes_no_answer(shift_s, tmp_path, maker):
    """What to use relies on speeds alone; only the newest sweep is chosen by the clocks of the machines."""
    right, off = (read_all(sweeps(tmp_path / str(shift) / "results", maker, shift)) for shift in (0, shift_s))
    answers = [
        [(each.what, [c for _, c in choices(each.cells)]) for each in groups(c for sweep in found for c in sweep.cells)]
        for found in (right, off)
    ]
    assert answers[0] == answers[1]
    numbers = [
        [{**each.row, "started_at": None} for sweep in found for each in sweep.planned] for found in (right, off)
    ]
    assert numbers[0] == numbers[1]
