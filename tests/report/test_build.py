import csv
import errno
import html
import json
import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pandas as pd
import pytest

from accelbench.answers.cells import WHY_OLDER
from accelbench.errors import UserError
from accelbench.judging.row import summarise
from accelbench.report import build, dvc_plots
from accelbench.report.export import EFFICIENCY, csv_text
from accelbench.report.read import read, read_all
from accelbench.schema import record
from accelbench.schema.cell import Mode, Status
from report.conftest import BAD_REASON


def test_cells_csv_has_a_row_for_each_planned_cell_where_unknown_values_are_empty(report, maker):
    text, (records, waiting) = pd.read_csv(report / "cells.csv", dtype=str, keep_default_na=False), maker.everything()
    assert list(text["cell_id"]) == [record.cell.id for record in records] + [cell.id for cell in waiting]
    assert list(text.columns) == [*summarise(records[0]), "cell", "num_processes", EFFICIENCY]
    not_ok = text[text["status"] != "ok"]
    assert len(not_ok) == 11
    for column in ("samples_per_s", "latency_p50_ms", "time_s", "num_params", "accuracy"):
        assert set(not_ok[column]) == {""}
    assert set(text["mfu"]) == set(text["peak_device_mb"]) == {""}
    assert set(text.loc[text["reason"] == "not run yet", "status"]) == {""}
    row = text.iloc[0]
    assert (row["num_params"], row["batch_size"], row["stand_in"]) == ("1195018", "32", "True")
    assert float(row["samples_per_s"]) == pytest.approx(12_000)
    row = {"a": -1.5, "b": "-1.5", "c": None, "d": True}  # no number is a formula
    assert csv_text([row]) == "a,b,c,d\n-1.5,'-1.5,,True\n"


def test_text_of_others_does_no_harm_in_any_file(tmp_path, maker):
    wicked = "=1+1\x1b[31m\u202e`|<b>\n@x"
    failed = maker.record(maker.cell(suite="s"), Status.failed, reason="-2 " * 10**6, error="e" * 5_000_000)
    odd = maker.record(maker.cell("cnn", suite="s"), Status.failed, reason=wicked)
    out = maker.report(tmp_path, maker.ok(maker.cell(wicked, suite="s"), 1000, warnings=["w" * 10**6]), failed, odd)
    for name in ("index.html", "report.md", "cells.csv"):
        text = (out / name).read_text()
        assert not set("\x1b\u202e") & set(text)
        assert len(text) < 1_000_000
    rows = pd.read_csv(out / "cells.csv", keep_default_na=False)
    assert rows["model"][0] == "'" + r"=1+1\x1b[31m\u202e`|<b>" + "\n@x"
    assert rows["reason"][1].startswith("'-2 -2")
    assert len(rows["reason"][1]) == 4001
    assert r"=1+1\\x1b\[31m\\u202e\`\|&lt;b> @x" in (out / "report.md").read_text()


def test_metrics_are_gains_over_the_first_cell_of_the_same_batch_and_how_the_cells_ended(tmp_path, maker):
    speeds = {("fp32", 32): 1000, ("bf16", 32): 3000, ("fp32", 128): 9000, ("bf16", 128): 10_000}
    cells = [maker.ok(maker.cell(precision=word, batch_size=size), rate) for (word, size), rate in speeds.items()]
    cnn = [maker.ok(maker.cell("cnn", precision=word), rate) for word, rate in (("fp32", 100), ("bf16", 200))]
    alone = maker.ok(maker.cell("rnn"), 50, warnings=["the loader waited"])
    others = [maker.record(maker.cell(device="gpu"), Status.skipped), maker.record(maker.cell("lstm"), Status.failed)]
    out = maker.report(tmp_path, *cells, *cnn, alone, *others)
    outcomes = {"ok": 7, "in_doubt": 1, "failed": 1, "skipped": 1}
    gains = {"jobs": 3, "faster": 1, "max_gain": 2.0, "median_gain": 2.0}  # at batch 128, mlp gains too little
    assert json.loads((out / "metrics.json").read_text()) == gains | outcomes


def test_a_full_disk_leaves_the_earlier_report(tmp_path, maker, monkeypatch):
    out = maker.report(tmp_path, *(maker.ok(maker.cell(batch_size=size), 1000) for size in (1, 2)))
    (out / "notes.txt").write_text("mine")
    (out / "plots/earlier.png").touch()
    before = {path: path.is_file() and path.read_bytes() for path in out.rglob("*")}
    full = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(UserError, match=f"^{out}: disk full$"):
            maker.report(tmp_path)
    assert {path: path.is_file() and path.read_bytes() for path in out.rglob("*")} == before
    skipped = maker.record(maker.cell("cnn"), Status.skipped, reason="no")
    maker.report(tmp_path, skipped)  # whose pictures, none, are the only ones
    assert list((out / "plots").iterdir()) == []
    assert (out / "notes.txt").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report", "results"]


def test_records_that_cannot_be_read_or_are_not_shown_are_named_on_the_page_and_for_the_console(
    tmp_path: Path, maker
) -> None:
    records = [maker.ok(maker.cell(model), 1000) for model in ("mlp", "cnn")]
    bad = maker.suite(tmp_path / "results", records) / f"{records[0].name}.json"
    bad.write_text("{")
    record.write(maker.ok(maker.cell(batch_size=1), 10), tmp_path / "results" / "nets")
    said: list[str] = []
    build.build(read_all(tmp_path / "results"), tmp_path / "results", out := tmp_path / "report", say=said.append)
    line, note = said
    assert line.startswith(f"results/nets/{bad.name}: not a readable record (")
    assert line.endswith("); delete it and run the sweep again")
    assert note.startswith("Not shown, because the plan of results/nets lacks them: 1 record (")
    for name, count in (("index.html", "1</b> not readable"), ("report.md", "1 ok, 1 not readable")):
        text = (out / name).read_text()
        assert all(part in text for part in (line.partition(" (")[0], note, count))
    rows = pd.read_csv(out / "cells.csv")
    assert list(rows["samples_per_s"].notna()) == [False, True]
    assert rows["reason"][0] == "not readable"


def test_page_and_markdown_have_the_same_answers_and_tables_and_text_from_users_is_text(report):
    page, text = ((report / name).read_text() for name in ("index.html", "report.md"))
    for tag in ("table", "tr", "td", "th", "details", "section", "div", "script"):
        assert len(re.findall(rf"<{tag}\b", page)) == page.count(f"</{tag}>"), tag
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert [row[data["names"].index("reason")] for row in data["rows"]].count(BAD_REASON) == 1
    found = re.findall(r"<(t[dh])\b[^>]*>(.*?)</\1>", page, re.DOTALL)
    cells_of_page = Counter(html.unescape(re.sub(r"<[^>]*>", "", entry)) for _, entry in found)
    assert cells_of_page[BAD_REASON] == 1
    assert not re.search(r"(?<!\\u003cscript\\u003e)(?<!&lt;script&gt;)alert\(", page)
    begin = "".join(f"    {line}".rstrip() + "\n" for line in (report / "headline.txt").read_text().splitlines())
    assert text.startswith(f"# accelbench report\n\n{begin}")
    rows = [line for line in text.splitlines() if line.startswith("|") and not line.startswith("|---")]
    cells = [cell.strip() for row in rows for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
    plain = [html.unescape(re.sub(r"\\(.)", r"\1", cell)) for cell in cells if cell]
    assert "| invalid | 1 | it is invalid |\n| not run yet | 2 |  |\n| skipped | 4 | no NVIDIA GPU: " in text
    assert Counter(plain) <= cells_of_page
    assert len(text.split()) < 480


def test_the_plotted_file_has_what_the_template_names_and_nothing_that_ends_a_script(tmp_path, maker):
    cells = [maker.cell(), maker.cell(batch_size=256), maker.cell(threads=1), maker.cell("</script>&amp;")]
    cells.append(maker.cell("alone", mode=Mode.infer))
    skipped = maker.record(maker.cell("skipped", mode=Mode.infer), Status.skipped)
    folder = maker.report(tmp_path, *(maker.ok(cell, 1000) for cell in cells), skipped)
    dvc_plots.write(folder)
    text = (folder / "throughput.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert [row["model"] for row in rows[:3]] == ["mlp", "mlp", "mlp"]
    assert [row["options"] for row in rows] == ["", "", "asked_threads=1", ""]  # else two would look the same
    assert len(rows) == 4  # without the one that would be alone in its panel
    assert float(rows[0]["samples_per_s"]) == pytest.approx(1000)
    template = (Path(__file__).resolve().parents[2] / ".dvc/plots/throughput.json").read_text()
    assert {name for name in rows[0] if name not in template} == set()
    assert not set("<>&") & set(text)
    assert list((folder / "plots").iterdir()) != []  # DVC warns of an empty folder


def test_reads_what_the_plan_names_in_its_order_and_names_the_other_records(tmp_path, maker):
    records = [maker.ok(maker.cell(model), 10) for model in ("cnn", "mlp")]
    folder = maker.suite(tmp_path / "results", records, [maker.cell("rnn")])
    found = read(folder)
    assert (found.suite, found.title, found.study, found.notes) == ("nets", "Networks", "001", [])
    outcomes = [(cell.cell.model.name, cell.outcome) for cell in found.cells]
    assert outcomes == [("cnn", "ok"), ("mlp", "ok"), ("rnn", "not run yet")]
    assert (found.cells[2].row["model"], found.cells[2].row["samples_per_s"]) == ("rnn", None)
    orphans = [maker.ok(maker.cell(batch_size=2**i), 10) for i in range(4)]
    names = sorted(record.write(each, folder).name for each in orphans)
    (note,) = read(folder).notes
    assert note == (
        "Not shown, because the plan of results/nets lacks them: 4 records (their cells are no longer wanted, or "
        f"their code, versions or machine changed): {', '.join(names[:3])}, ..."
    )
    results = tmp_path / "runs"  # of which sweeps are read at any depth, and told apart by name
    for place, model in (("", "rnn"), ("h100", "cnn"), ("l40s/again", "mlp")):
        maker.suite(results / place, [maker.ok(maker.cell(model, suite="s"), 10)], study=None)
    record.write(maker.ok(maker.cell(batch_size=2), 1), results)  # a stray record hides none of them
    found = {sweep.folder: sweep.cells[0].cell.model.name for sweep in read_all(results)}
    assert found == {"h100/s": "cnn", "l40s/again/s": "mlp", "runs": "mlp", "s": "rnn"}
    assert list(found) == sorted(found)


def test_a_plan_that_cannot_be_read_is_named_and_its_records_are_shown(tmp_path, maker):
    records = [maker.ok(maker.cell(epochs=epochs), 10) for epochs in (1, 2, 4)]
    path = maker.suite(tmp_path / "results", records) / "plan.json"
    values = json.loads(path.read_text())
    values["cells"][2]["record"] = "../../elsewhere"
    path.write_text(json.dumps(values))
    spoilt = read(path.parent)
    path.unlink()
    lost = read(path.parent)
    for found, begin in ((spoilt, "nets/plan.json: not a readable plan ("), (lost, "nets has no plan.json")):
        assert {cell.label[-8:] for cell in found.cells} == {"epochs=1", "epochs=2", "epochs=4"}
        (note,) = found.notes
        assert note.startswith(f"results/{begin}")
        assert ": the cells of all its records are shown" in note


def test_a_folder_in_which_nothing_can_be_read_costs_only_itself(tmp_path, maker):
    with pytest.raises(UserError, match="no sweep there.*run one first"):
        read_all(tmp_path)
    results = tmp_path / "results"
    maker.suite(results, [maker.ok(maker.cell(suite="good"), 10)])
    (results / "bad").mkdir()
    (results / "bad/plan.json").write_text("{")
    good, bad = read_all(results)
    assert (len(good.planned), bad.cells) == (1, [])
    assert "not a readable plan" in bad.notes[0]
    record.write(maker.ok(maker.cell(), 10), results / "bad").write_text("{")
    with pytest.raises(UserError, match=r"results/bad/.*: not a readable record"):
        read_all(results / "bad")


def test_a_suite_has_the_figures_that_it_has_among_all_suites_and_older_code_is_named(tmp_path, maker):
    results = tmp_path / "results"
    first = maker.ok(maker.cell(), 100)
    maker.suite(results, [first])
    maker.suite(results, [maker.at(maker.ok(maker.cell(suite="more"), 300), 1)])
    confirming = [maker.at(maker.ok(maker.cell(precision="bf16", repeat=i), 900), 5 + i) for i in range(5)]
    maker.suite(tmp_path / "confirmed", confirming)
    maker.suite(results, [first, maker.ok(maker.cell(precision="bf16"), 500)])
    of_all = {(each.folder, cell.label): cell for each in read_all(results) for cell in each.cells}
    (suite,) = read_all(results / "nets")
    found = {("nets", cell.label): cell for cell in suite.cells}
    assert {key: cell.speed for key, cell in found.items()} == {key: of_all[key].speed for key in found}
    assert sorted(cell.speed for cell in found.values()) == pytest.approx([200, 900])
    edited = replace(first, identity="2" * 40, environment={**first.environment, "files": {"model.target": "2"}})
    maker.suite(tmp_path / "runs", [first, maker.at(edited, 9)])
    assert read(tmp_path / "runs/nets").notes == [f"Older: 1 cell of nets, {WHY_OLDER}: no answer uses them"]
