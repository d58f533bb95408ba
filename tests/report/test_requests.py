"""Cells that served requests, beside cells with a speed: what every surface shows of them."""

import csv
import io

import pytest

import accelbench
from accelbench.answers.cells import Process, cells_of
from accelbench.answers.jobs import jobs
from accelbench.cli import main
from accelbench.judging.row import served_text, summarise
from accelbench.schema.cell import Server
from accelbench.schema.vocab import Protocol, Verdict
from accelbench.sinks.mlflow_fields import of_cells
from fakes import make_cell, make_record, make_served, write_sweep

SERVED = make_served()
SLOW = make_served(cell=make_cell(protocol=Protocol.server, server=Server(rate=90.0)), verdict=Verdict.fails)
STREAM, OFFLINE = make_served(Protocol.single_stream), make_served(Protocol.offline)
NUMBERS = {
    "requests_per_s": 49.5,
    "request_p99_ms": 40.2,
    "request_p99_ms_low": 33,
    "request_p99_ms_high": None,
    "request_p999_ms": None,
    "miss_share": 0.003,
    "verdict": "sure pass",
    "mean_batch": 1000 / 550,
    "padded_share": 50 / 1050,
    "queue_ms": 2,
    "compute_ms": 10,
    "rate": 50,
    "limit_ms": 50,
    "limit_percentile": 99,
    "samples_per_s": None,
}


def test_its_row_has_its_figures_and_settings_and_no_speed_but_offlines():
    row = summarise(SERVED)
    assert {name: row[name] for name in NUMBERS} == pytest.approx(NUMBERS)
    assert (summarise(OFFLINE)["samples_per_s"], summarise(OFFLINE)["verdict"]) == (pytest.approx(3200), None)
    stream, window = summarise(STREAM), summarise(make_record())
    assert [stream[name] for name in ("rate", "workers", "samples_per_s")] == [None] * 3
    assert {window[name] for name in ("rate", "workers", "requests_per_s", "max_delay_ms")} == {None}


def test_it_is_ranked_by_no_speed_and_nothing_breaks_on_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    window = make_record()
    write_sweep(tmp_path / "runs/mine", SERVED, SLOW, STREAM, OFFLINE, window)
    cells = cells_of(map(Process.of, (SERVED, SLOW, STREAM, OFFLINE, window)))
    assert {each.fastest.cell.protocol for each in jobs(cells)} == {"offline", "window"}
    assert main(["best", "runs/mine"]) == main(["report", "runs/mine"]) == 0
    text = (tmp_path / "runs/mine/report/cells.csv").read_text()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["verdict"] for row in rows] == ["sure pass", "sure fail", "", "", ""]
    found = accelbench.read("runs/mine")
    assert (found[0].requests_per_s, found[0].request_p99_ms, found[0].verdict) == (49.5, 40.2, "sure pass")
    assert "49.5 requests/s, p99 40.2 ms, sure pass: p99 at most 50 ms" in repr(found)
    assert len(found.to_frame()) == 5
    capsys.readouterr()


def test_the_line_of_a_cell_that_served():
    untold = make_served(verdict=Verdict.unknown, num_missed=870)
    assert served_text(summarise(untold)).endswith("can't tell: p99 at most 50 ms (87 % of requests missed it)")
    assert served_text(summarise(SERVED)) == "49.5 requests/s, p99 40.2 ms, sure pass: p99 at most 50 ms"


def test_mlflow_has_its_settings_figures_and_verdict():
    (run,) = of_cells(cells_of([Process.of(SLOW)]))
    figures = [run.metrics[name] for name in ("request_p99_ms", "miss_share", "requests_per_s")]
    assert (*figures, run.params["rate"], run.tags["word"]) == (40.2, 0.003, 49.5, "90.0", "ok")
    assert "49.5 requests/s, p99 40.2 ms, sure fail: p99 at most 50 ms" in run.tags["mlflow.note.content"]
