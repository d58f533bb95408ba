import copy
import io
import json
import re

import pandas as pd
import pytest
from rich.console import Console

import accelbench
import beside
from accelbench.answers.cells import Process
from accelbench.answers.jobs import jobs
from accelbench.report.export import cell_rows, csv_text
from accelbench.report.read import read_all
from accelbench.schema import record as records
from accelbench.schema.cell import Mode, Precision, Status
from accelbench.schema.measurement import Block, Generation
from accelbench.sweep import terminal
from accelbench.sweep.card import show_card
from fakes import make_cell, make_measurement, make_record
from report.conftest import Maker, served

maker = Maker()


@pytest.fixture
def folder(here):
    """Three cells: one is ok, one is twice as fast with a longer latency, one failed."""
    place = here / "runs" / "mine"
    blocks = [Block(num_steps=10, num_samples=640, seconds=0.1)] * 8
    fast = make_measurement(blocks=blocks, latency_s=[0.04] * 64, precision="bf16")
    for record in (
        make_record(),
        make_record(make_cell(precision=Precision.bf16), measurement=fast, started_at="2026-11-20T09:01:00.000+00:00"),
        make_record(make_cell(batch_size=4), Status.failed, reason="<b>a bad layer</b>", error="Traceback"),
    ):
        records.write(record, place)
    return place


def test_results_are_a_sequence_of_what_was_measured_whose_numbers_only_ok_cells_have(folder):
    records.write(make_record(make_cell(batch_size=2), Status.invalid, reason="wrong"), folder)
    results = accelbench.read("runs/mine")
    result = next(one for one in results if one.settings["precision"] == "fp32" and one.is_ok)
    assert result.samples_per_s == pytest.approx(3200)
    assert result.samples_per_s_low <= result.samples_per_s <= result.samples_per_s_high
    assert result.latency_p50_ms == pytest.approx(10)
    assert json.loads(result.path.read_text())["label"] == result.label == copy.deepcopy(result).label
    assert len(result.raw.blocks) == 8
    assert isinstance(results[1:], accelbench.Results)
    assert (len(results[1:]), results[1:].folder) == (3, results.folder)
    by_status = {result.status: result for result in results}
    for status in ("failed", "invalid"):
        assert (by_status[status].samples_per_s, by_status[status].latency_p50_ms) == (None, None)
    assert "failed: <b>a bad layer</b>" in repr(by_status["failed"])


def test_the_best_is_the_fastest_within_the_limit_of_one_work(folder):
    results = accelbench.read("runs/mine")
    assert results.best().settings["precision"] == "bf16"
    assert results.best(latency_ms=20).settings["precision"] == "fp32"
    with pytest.raises(accelbench.UserError, match="no ok cell is known to be within 1 ms"):
        results.best(latency_ms=1)
    records.write(make_record(make_cell(mode=Mode.train)), folder)
    several = "best: the results are of several jobs: mlp infer, mnist; mlp train, mnist. "
    several += "Select the results of one job, such as `results[:4].best()`"
    with pytest.raises(accelbench.UserError, match=re.escape(several)):
        accelbench.read(folder).best()
    with pytest.raises(accelbench.UserError, match="no sweep there"):
        accelbench.read("nothing")


def test_results_show_the_answer_and_are_a_frame_like_cells_csv_and_a_page(folder, tmp_path):
    results = accelbench.read("runs/mine")
    lines = repr(results).splitlines()
    assert "PyTorch bf16 b32 is fastest here" in lines[1]
    assert len(lines) == 5
    frame = results.to_frame()
    written = pd.read_csv(io.StringIO(csv_text(cell_rows(read_all(folder)[:1]))))
    assert list(frame.columns) == list(written.columns)
    assert frame["samples_per_s"].dropna().tolist() == written["samples_per_s"].dropna().tolist()
    assert "a bad layer" in results.report(tmp_path / "page").read_text()
    for record in served(maker):
        records.write(record, folder)
    assert "200 to 240 requests/s with p99 at most 50 ms" in repr(accelbench.read("runs/mine"))


def test_a_generation_is_said_in_tokens_per_second_with_their_times(tmp_path):
    generation = Generation(prefill_s=[0.1] * 8, decode_s=[[0.01] * 31] * 8, cache_bytes=4_000_000)
    changes = {"generation": generation, "tokens_per_sample": 32}
    record = make_record(make_cell(mode=Mode.generate), measurement=make_measurement(**changes))
    records.write(record, tmp_path)
    results, console = accelbench.read(tmp_path), Console(file=io.StringIO(), width=120)
    show_card(record, "", console)
    terminal.show_answer([Process.of(record)], "runs/mine", console)
    sentence = jobs(read_all(tmp_path)[0].cells)[0].sentence
    assert re.search("102,[04]00 tokens/s.*first token after 100 ms, 10.0 ms a token", sentence)
    for text in (repr(results), console.file.getvalue()):
        assert "tokens/s" in text
        assert not re.search("samples/s|ms/step", text)
    records.write(beside.make_record(cell=record.cell, **changes), tmp_path / "disturbed")
    (shown,) = accelbench.read(tmp_path / "disturbed")
    assert "10.0" not in repr(shown)  # of a disturbed cell nothing is published
    assert shown.tpot_p50_ms is None


def test_folders_and_results_have_the_same_verdict_which_names_what_is_compared(tmp_path):
    def side(name, rate, minute, **changes):
        cells = [maker.cell(repeat=repeat, **changes) for repeat in range(5)]
        made = [maker.ok(cell, rate * (1 + 0.005 * (i % 3 - 1))) for i, cell in enumerate(cells)]
        return maker.suite(tmp_path / name, [maker.at(each, 3 * i + minute) for i, each in enumerate(made)])

    sides = side("a", 1000, 0), side("b", 900, 1)
    by_folder = accelbench.compare(*sides)
    (pair,), (other,) = by_folder, accelbench.compare(*map(accelbench.read, sides))
    assert (pair.label, pair.verdict) == (other.label, other.verdict)
    # Files may be read in another order than results have.
    assert (pair.ratio, pair.low, pair.high) == pytest.approx((other.ratio, other.low, other.high), rel=1e-3)
    assert pair.verdict == "slower"
    assert pair.low < pair.ratio < pair.high < 1
    assert pair.ratio == pytest.approx(0.9)
    assert (by_folder.is_slower_by(0.05), by_folder.is_slower_by(0.15)) == (True, False)
    compared = repr(accelbench.compare(sides[0], side("c", 2000, 2, precision="bf16")))
    assert "Compared: precision: fp32 | bf16" in compared
    assert "faster" in compared
    assert accelbench.compare(*sides, margin=0.2)[0].verdict == "same"
    with pytest.raises(accelbench.UserError, match="margin=5: should be a share"):
        accelbench.compare(*sides, margin=5)
