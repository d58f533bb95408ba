import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from accelbench.errors import RefusedError, UserError
from accelbench.judging.row import summarise
from accelbench.schema import plan_file, record
from accelbench.schema.cell import DataSpec, ModelSpec, Protocol, Status, Window
from accelbench.schema.plan_file import labels
from accelbench.schema.serialize import read_json, write_json
from fakes import make_cell, make_measurement, refuse_listing, write_plan_of
from tests.sinks.samples import cell, measurement
from tests.sinks.samples import record as make_record

OLD = Path(__file__).parent / "old_release"
FULL = measurement(cell(protocol=Protocol.fit))


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("measurement", [None, FULL], ids=["none", "full"])
def test_a_file_and_back_is_the_same_record(tmp_path, status, measurement):
    measurement = measurement or (make_measurement() if status == Status.ok else None)
    written = make_record(None, status, number=7, measurement=measurement)
    path = record.write(written, tmp_path / "new" / "folder")
    assert path.name == f"{written.cell.id}-00000007.json"
    assert path.stat().st_mode & 0o777 == 0o644  # others may read it
    assert record.read(path) == written
    assert json.loads(path.read_text()).items() >= {"cell_id": written.cell.id, "label": written.cell.label}.items()
    # Texts of others are safe to show.
    written = make_record(reason="a b\x1b[2J" + "r" * 10**6, error="the beginning\x9b1m" + "e" * 10**6)
    read = record.read(record.write(written, tmp_path))
    assert (read.reason[:12], len(read.reason)) == (r"a b\x1b[2Jrr", 4000)
    assert (read.error[:18], len(read.error)) == (r"the beginning\x9b1", 4000)


@pytest.mark.parametrize("version", [None, "8", "\x1b]0;", 7, record.SCHEMA_VERSION + 1])
def test_a_record_or_a_plan_of_another_schema_is_named(tmp_path, version):
    path, plan = record.write(make_record(), tmp_path), tmp_path / "plan.json"
    write_plan_of(tmp_path, [make_record()])
    message = re.escape(f"(it has schema {version!r}; this accelbench reads schema {record.SCHEMA_VERSION})")
    for file, read in ((path, record.read), (plan, lambda plan: plan_file.read_plan(plan.parent))):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"schema_version": version}))
        with pytest.raises(UserError, match=f"^{file}: not a readable (record|plan) {message}"):
            read(file)


@pytest.mark.parametrize("text", [None, "{", "[]", '{"cells": [{}]}'])
def test_a_folder_without_a_readable_plan_is_named(tmp_path, text):
    if text is not None:
        (tmp_path / "plan.json").write_text(text)
    with pytest.raises(UserError, match=r"plan.json.*run the sweep (first|again)"):
        list(plan_file.read_planned(tmp_path))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("schema_version", ..., "'schema_version'"),
        ("cell.device", "abacus", "abacus"),
        # Settings of another release: the cell is not the one without them.
        *(("cell.toy", 5, "cell: unknown field 'toy'"), ("cell.window.toy", 5, "cell.window: unknown field 'toy'")),
        ("measurement", None, "measurement: an ok record should have blocks, epochs, requests"),
        ("measurement.blocks.3.seconds", 0.0, r"measurement.blocks\[3\].seconds: should be `float` >= 1e-09"),
        ("measurement.breakdown", {"phases_s": {"sleep": [1.0]}, "undisturbed_s": [1.0]}, "phases_s.*'sleep'"),
        ("system", {"t_s": [0.1], "values": {"host_memory_mb": [1.0, 2.0]}}, "host_memory_mb should have 1"),
        ("cell.batch_size", 64, "cell_id: should be the digest of the cell's settings"),
        *(("cell_id", "../../secret", "cell_id: should be "), ("identity", "../../secret", "identity: should be ")),
        ("started_at", "yesterday", "Invalid isoformat"),
        *(("started_at", "2026-11-20T09:00:00", "started_at: should have a time zone"), ("wall_s", -1.0, "wall_s")),
        ("environment", {"machine": {"num_threads": "two"}}, "environment.machine.num_threads"),
    ],
)
def test_a_value_that_no_cell_leaves_is_refused_and_named(tmp_path, path, value, message):
    file = record.write(make_record(), tmp_path)
    inner = values = json.loads(file.read_text())
    *parents, last = path.split(".")
    for part in parents:
        inner = inner[int(part) if part.isdecimal() else part]
    inner[last] = value
    if value is ...:
        del inner[last]
    file.write_text(json.dumps(values))
    with pytest.raises(UserError, match=f"{file}: not a readable record .*{message}"):
        record.read(file)


def test_what_can_not_be_read_costs_only_itself(tmp_path):
    good = record.write(make_record(), tmp_path)
    copy, odd, folder, lost, missing = (tmp_path / f"{index:012x}-{8 * '0'}.json" for index in range(5))
    shutil.copy(good, copy)
    odd.write_text("[]")
    folder.mkdir()
    lost.symlink_to("nowhere")
    readable = record.read_all([copy, odd, good, folder, lost, missing])
    assert list(readable.by_path()) == [(good, make_record())]
    told = {path: str(error).partition("(")[2] for path, error in readable.refused.items()}
    assert list(told) == [copy, odd, folder, lost]
    assert f"it is a copy of {good.stem}" in told[copy]
    assert (told[folder], told[lost]) == ("Is a directory)", "No such file or directory)")
    assert record.read(copy) == make_record()  # a user may name any file


def test_a_record_and_a_plan_of_an_earlier_commit_of_this_release_are_read():
    """They were written before verdicts, secrets and plans were read in the present way; another schema is refused."""
    (wanted,) = plan_file.read_plan(OLD).cells
    old = record.read(OLD / f"{wanted.record_name}.json")
    assert (old.cell, old.label, old.name, old.status) == (wanted.cell, wanted.label, wanted.record_name, Status.ok)
    assert old.cell.id == wanted.record_name.partition("-")[0]
    row = summarise(old)
    assert row["samples_per_s"] == pytest.approx(median(8 / step.seconds for step in old.measurement.blocks))
    assert (row["disturbed"], row["mfu"]) == (None, pytest.approx(0.0013, abs=1e-4))
    written = json.loads((OLD / f"{old.name}.json").read_text())
    # Fields that records no longer have.
    del written["unfinished"], written["measurement"]["clock_drift"], written["data"]["test_in_training"]
    del written["measurement"]["checks"], written["measurement"]["dropped_s"], written["cell"]["server"]["generator"]
    written["measurement"]["checked"] = []
    assert json.loads(json.dumps(old.to_json())) == written


RECORDS = [
    make_record(make_cell(batch_size=size), started_at=f"2026-11-{day}T09:00:00+00:00")
    for size, day in ((8, 20), (16, 22), (32, 21))
]


def test_without_a_plan_all_records_are_wanted_in_the_order_in_which_they_were_measured(tmp_path):
    for one in RECORDS:
        record.write(one, tmp_path)
    (tmp_path / "000000000000-00000000.json").write_text("{")
    plan = plan_file.plan_of_records(tmp_path)
    assert [wanted.cell.batch_size for wanted in plan.cells] == [8, 32, 16]
    assert (plan.suite, plan.title, plan.study) == ("test", tmp_path.name, None)
    # With a plan, only its cells are, in its order; one was never run.
    plan.cells[0] = replace(plan.cells[0], label="mlp, the wide one")
    never = replace(plan.cells[0], record_name=f"{'0' * 12}-{'1' * 8}")
    plan_file.write_plan(plan := replace(plan, cells=[plan.cells[2], never, plan.cells[0]]), tmp_path)
    assert plan_file.read_plan(tmp_path) == plan
    assert list(plan_file.read_planned(tmp_path)) == [RECORDS[1], RECORDS[0]]
    path = tmp_path / "plan.json"
    path.write_text(path.read_text().replace('"batch_size"', '"toy": 5, "batch_size"'))
    with pytest.raises(UserError, match="cell: unknown field 'toy'"):  # a setting of another release
        plan_file.read_plan(tmp_path)


def test_the_folders_of_sweeps_are_found_at_any_depth_but_not_hidden_or_linked_ones(tmp_path, monkeypatch):
    for name in ("b", "a/deep/er", "a"):
        record.write(RECORDS[0], tmp_path / name)
    write_plan_of(tmp_path / "planned", RECORDS)
    record.write(RECORDS[0], tmp_path / ".hidden")
    (tmp_path / "a" / "circle").symlink_to(tmp_path)
    (tmp_path / "nothing").mkdir()
    assert plan_file.sweep_folders(tmp_path) == [tmp_path / name for name in ("a", "a/deep/er", "b", "planned")]
    assert plan_file.sweep_folders(tmp_path / "gone") == []
    refuse_listing(monkeypatch, tmp_path / "b")
    with pytest.raises(RefusedError, match=f"^{tmp_path}/b: Permission denied$"):
        plan_file.sweep_folders(tmp_path)


def test_cells_of_one_label_are_told_apart_by_the_settings_in_which_they_differ():
    model = ModelSpec(name="mlp", args={"units": 128, "dropout": 0.1})
    settings = {
        "units=256": {"model": replace(model, args={"units": 256, "dropout": 0.1})},
        "learning_rate=0.5": {"model": replace(model, learning_rate=0.5)},
        "data=cifar10": {"data": DataSpec(name="cifar10")},
        "measure_s=9": {"window": Window(measure_s=9)},
        "epochs=7": {"epochs": 7},
    }
    first, *others = [make_cell(**{"model": model, **changes}) for changes in ({}, *settings.values())]
    for words, other in zip(settings, others, strict=True):
        assert first.label == other.label
        assert words in labels([first, other])[other.id].removeprefix(other.label).split("-")
    cells = [first, *others, make_cell(batch_size=8), make_cell(repeat=1)]
    names = labels(cells)
    assert len(set(names.values())) == len({each.id for each in cells})
    assert [names[each.id] for each in cells[-2:]] == [each.label for each in cells[-2:]]


@pytest.mark.parametrize("value", [object(), float("nan")], ids=["no JSON", "not a number"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, value):
    write_json(tmp_path / "a.json", {"old": 1})
    with pytest.raises((TypeError, ValueError)):
        write_json(tmp_path / "a.json", {"new": list(range(10_000)), "then": value})
    assert read_json(tmp_path / "a.json") == {"old": 1}
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize("text", ["", "[1", "NaN", "[Infinity]", "1e400", 2000 * "[" + 2000 * "]", '"\\ud800"', "\xff"])
def test_json_that_nothing_writes_is_refused(tmp_path, text):
    (tmp_path / "a.json").write_bytes(text.encode("latin1"))
    with pytest.raises(ValueError, match="malformed|truncated|range|deep"):
        read_json(tmp_path / "a.json")
