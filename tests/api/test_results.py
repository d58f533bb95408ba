import copy
import io
import json
import re

import pandas as pd
import pytest
from rich.console import Console

import accelbench
import beside
from accelbench.answers.cells import Process, cells_of
from accelbench.answers.jobs import jobs
from accelbench.report.export import cell_rows, csv_text
from accelbench.report.read import read_all
from accelbench.schema import record as records
from accelbench.schema.cell import Mode, Precision, Status
from accelbench.schema.measurement import Block, Generation
from accelbench.sweep import terminal
from accelbench.sweep.card import show_card
from fakes import make_cell, make_measurement, make_record
from report.conftest import Maker
from report.pictures.samples import served

FAST = [Block(num_steps=10, num_samples=640, seconds=0.1)] * 8


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three cells: one is ok, one is twice as fast with a longer latency, one failed."""
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "runs" / "mine"
    place.mkdir(parents=True)
    fast = make_measurement(blocks=FAST, latency_s=[0.04] * 64, precision="bf16")
    for record in (
        make_record(),
        make_record(make_cell(precision=Precision.bf16), measurement=fast, started_at="2026-11-20T09:01:00.000+00:00"),
        make_record(make_cell(batch_size=4), Status.failed, reason="<b>a bad layer</b>", error="Traceback"),
    ):
        records.write(record, place)
    return place


@pytest.fixture
def results(folder):
    return accelbench.read("runs/mine")


def test_results_are_a_sequence_of_what_was_measured(results):
    result = next(one for one in results if one.settings["precision"] == "fp32" and one.is_ok)
    assert result.samples_per_s == pytest.approx(3200)
    assert result.samples_per_s_low <= result.samples_per_s <= result.samples_per_s_high
    assert result.latency_p50_ms == pytest.approx(10)
    assert json.loads(result.path.read_text())["label"] == result.label
    assert isinstance(results[1:], accelbench.Results)
    assert (len(results[1:]), results[1:].folder) == (2, results.folder)


def test_a_cell_that_is_not_ok_has_its_reason_and_no_numbers(folder):
    records.write(make_record(make_cell(batch_size=2), Status.invalid, reason="wrong"), folder)
    by_status = {result.status: result for result in accelbench.read(folder)}
    for status in ("failed", "invalid"):
        assert (by_status[status].samples_per_s, by_status[status].latency_p50_ms) == (None, None)
    assert "failed: <b>a bad layer</b>" in repr(by_status["failed"])


def test_the_best_is_the_fastest_within_the_limit_of_one_work(results, folder):
    assert results.best().settings["precision"] == "bf16"
    assert results.best(latency_ms=20).settings["precision"] == "fp32"
    with pytest.raises(accelbench.UserError, match="no ok cell is known to be within 1 ms"):
        results.best(latency_ms=1)
    records.write(make_record(make_cell(mode=Mode.train)), folder)
    with pytest.raises(accelbench.UserError) as raised:
        accelbench.read(folder).best()
    assert str(raised.value) == (
        "best: the results are of several jobs: mlp infer, mnist; mlp train, mnist. "
        "Select the results of one job, such as `results[:4].best()`"
    )
    with pytest.raises(accelbench.UserError, match="no sweep there"):
        accelbench.read("nothing")


def test_a_frame_has_the_columns_and_values_of_cells_csv_and_a_report_is_a_page(results, folder, tmp_path):
    frame = results.to_frame()
    written = pd.read_csv(io.StringIO(csv_text(cell_rows(read_all(folder)[:1]))))
    assert list(frame.columns) == list(written.columns)
    assert frame["samples_per_s"].dropna().tolist() == written["samples_per_s"].dropna().tolist()
    assert "a bad layer" in results.report(tmp_path / "page").read_text()


def test_results_show_the_answer_and_a_line_for_each(results):
    lines = repr(results).splitlines()
    assert "PyTorch bf16 b32 is fastest here" in lines[1]
    assert len(lines) == 5
    assert len(results[0].raw.blocks) == 8
    assert copy.deepcopy(results[0]).label == results[0].label


def test_a_generation_is_said_in_tokens_per_second_with_their_times(tmp_path):
    generation = Generation(prefill_s=[0.1] * 8, decode_s=[[0.01] * 31] * 8, cache_bytes=4_000_000)
    measured = make_measurement(generation=generation, tokens_per_sample=32)
    record = make_record(make_cell(mode=Mode.generate), measurement=measured)
    records.write(record, tmp_path)
    results, console = accelbench.read(tmp_path), Console(file=io.StringIO(), width=120)
    show_card(record, "", console)
    terminal.show_answer([Process.of(record)], "runs/mine", console)
    cells = cells_of([Process.of(record)])
    sentence = jobs(cells)[0].sentence
    assert re.search("102,[04]00 tokens/s", sentence)
    assert "first token after 100 ms, 10.0 ms a token" in sentence
    for text in (sentence, repr(results), console.file.getvalue()):
        assert "tokens/s" in text
        assert "samples/s" not in text
        assert "ms/step" not in text
    disturbed = beside.make_record(cell=record.cell, generation=generation, tokens_per_sample=32)
    records.write(disturbed, tmp_path / "disturbed")
    (shown,) = accelbench.read(tmp_path / "disturbed")
    assert "10.0" not in repr(shown)  # of a disturbed cell nothing is published
    assert shown.tpot_p50_ms is None


def test_results_show_what_each_setting_serves(folder):
    for record in served(Maker()):
        records.write(record, folder)
    assert "200 to 240 requests/s with p99 at most 50 ms" in repr(accelbench.read("runs/mine"))
