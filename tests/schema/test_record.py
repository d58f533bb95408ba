import json
import re
import shutil
from pathlib import Path
from statistics import median

import pytest

import fakes
from accelbench.errors import UserError
from accelbench.judging.row import summarise
from accelbench.schema import plan_file, record
from accelbench.schema.cell import Status, id_of
from accelbench.schema.measurement import Block, Data, Epoch, Evaluation, SystemSeries
from fakes import make_cell, make_measurement, write_plan_of

OLD = Path(__file__).parent / "old_release"
SYSTEM = SystemSeries(t_s=[0.0, 0.1], values={"host_memory_mb": [100.5, None]}, peak_host_bytes=12345)
FULL = make_measurement(
    blocks=[Block(num_steps=3, num_samples=96, seconds=0.1)],
    epochs=[Epoch(seconds=1.5, num_samples=100, loss=0.3), Epoch(seconds=1.4, num_samples=100)],
    evaluation=Evaluation(num_samples=50, seconds=0.2, loss=0.1, accuracy=0.98),
    warnings=["a warning"],
)


def make_record(status=Status.ok, **changes):
    data = Data(name="mnist", digest="d" * 64, source="random pixels", stand_in=True)
    fields = {"identity": "0123456789abcdef" * 4, "data": data, "environment": {"machine": {"num_cores": 2}}}
    return fakes.make_record(status=status, **{**fields, **changes})


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("measurement", [None, FULL], ids=["none", "full"])
def test_a_file_and_back_is_the_same_record(tmp_path, status, measurement):
    measurement = measurement or (make_measurement() if status == Status.ok else None)
    written = make_record(status, measurement=measurement, system=SYSTEM if measurement else None)
    path = record.write(written, tmp_path / "new" / "folder")
    assert path.name == f"{written.cell.id}-01234567.json"
    assert path.stat().st_mode & 0o777 == 0o644  # others may read it
    assert record.read(path) == written
    values = json.loads(path.read_text())
    assert (values["cell_id"], values["label"]) == (written.cell.id, written.cell.label)


@pytest.mark.parametrize("version", [None, "8", "\x1b]0;", 7, record.SCHEMA_VERSION + 1])
def test_a_record_or_a_plan_of_another_schema_is_named(tmp_path, version):
    path, plan = record.write(make_record(), tmp_path), tmp_path / "plan.json"
    write_plan_of(tmp_path, [make_record()])
    message = re.escape(f"(it has schema {version!r}; this accelbench reads schema {record.SCHEMA_VERSION})")
    for file, read in ((path, record.read), (plan, lambda plan: plan_file.read_plan(plan.parent))):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"schema_version": version}))
        with pytest.raises(UserError, match=f"^{file}: not a readable (record|plan) {message}"):
            read(file)


def test_the_plans_records_are_read_in_its_order(tmp_path):
    cells = [make_cell(batch_size=size) for size in (32, 8, 16, 64)]
    records = [make_record(cell=cell) for cell in cells]
    write_plan_of(tmp_path, records)
    for one in (records[3], records[0], records[1]):  # the third was never run
        record.write(one, tmp_path)
    record.write(make_record(cell=make_cell(batch_size=1)), tmp_path)  # of an earlier plan
    assert list(plan_file.read_planned(tmp_path)) == [records[0], records[1], records[3]]


@pytest.mark.parametrize("text", [None, "{", "[]", '{"cells": [{}]}'])
def test_a_folder_without_a_readable_plan_is_named(tmp_path, text):
    if text is not None:
        (tmp_path / "plan.json").write_text(text)
    with pytest.raises(UserError, match=r"plan.json.*run the sweep (first|again)"):
        list(plan_file.read_planned(tmp_path))


def test_texts_of_others_are_safe_to_show(tmp_path):
    reason, error = "a b\x1b[2J" + "r" * 10**6, "the beginning\x9b1m" + "e" * 10**6
    read = record.read(record.write(make_record(reason=reason, error=error), tmp_path))
    assert read.reason.startswith(r"a b\x1b[2Jrrr")
    assert (len(read.reason), len(read.error)) == (4000, 4000)
    assert read.error.startswith(r"the beginning\x9b1m")


def changed(values, path, value):
    """`values` with another value at the dotted path, or without it for `...`; an index is a number."""
    *parents, last = path.split(".")
    inner = values
    for part in parents:
        inner = inner[int(part) if part.isdecimal() else part]
    inner[last] = value
    if value is ...:
        del inner[last]
    return values


@pytest.mark.parametrize("place", ["cell", "cell.window"])
def test_a_cell_with_a_setting_of_another_release_is_no_cell_without_it(tmp_path, place):
    values = changed(make_record().to_json(), f"{place}.toy", 5)
    values["cell_id"] = id_of(values["cell"])
    path = tmp_path / f"{values['cell_id']}-{values['identity'][:8]}.json"
    path.write_text(json.dumps(values))
    with pytest.raises(UserError, match=rf"\({place}: unknown field 'toy'\)"):
        record.read(path)
    write_plan_of(tmp_path, [make_record()])
    plan = json.loads((tmp_path / "plan.json").read_text())
    (tmp_path / "plan.json").write_text(json.dumps(changed(plan, f"cells.0.{place}.toy", 5)))
    with pytest.raises(UserError, match=rf"{place}: unknown field 'toy'"):
        plan_file.read_plan(tmp_path)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (None, "[]", ""),
        ("schema_version", ..., "'schema_version'"),
        ("cell.device", "abacus", "abacus"),
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
    file.write_text(json.dumps(changed(json.loads(file.read_text()), path, value)) if path else value)
    with pytest.raises(UserError, match=f"{file}: not a readable record .*{message}"):
        record.read(file)


def test_what_can_not_be_read_costs_only_itself(tmp_path):
    good = record.write(make_record(), tmp_path)
    copy, half, folder, lost, missing = (tmp_path / f"{index:012x}-{8 * '0'}.json" for index in range(5))
    shutil.copy(good, copy)
    half.write_text(good.read_text()[:100])
    folder.mkdir()
    lost.symlink_to("nowhere")
    readable = record.read_all([copy, half, good, folder, lost, missing])
    assert list(readable.by_path()) == [(good, make_record())]
    told = {path: str(error).partition("(")[2] for path, error in readable.refused.items()}
    assert list(told) == [copy, half, folder, lost]
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
