import dataclasses
import json

import pytest

from accelbench.errors import UserError
from accelbench.schema import plan_file, record
from accelbench.schema.cell import ModelSpec
from accelbench.schema.conditions import Data, SystemSeries
from accelbench.schema.measurement import Block, Epoch, Evaluation
from accelbench.schema.record import Record
from accelbench.schema.vocab import Status
from fakes import make_cell, make_measurement

DATA = Data(name="mnist", digest="d" * 64, source="random pixels", stand_in=True)
SYSTEM = SystemSeries(t_s=[0.0, 0.1], values={"host_memory_mb": [100.5, None]}, peak_host_bytes=12345)
FULL = make_measurement(
    blocks=[Block(num_steps=3, num_samples=96, seconds=0.1)],
    epochs=[Epoch(seconds=1.5, num_samples=100, loss=0.3), Epoch(seconds=1.4, num_samples=100)],
    evaluation=Evaluation(num_samples=50, seconds=0.2, loss=0.1, accuracy=0.98),
    warnings=["a warning"],
    loss=0.25,
)


def make_record(status=Status.ok, **changes):
    told = {} if status == Status.ok else {"reason": "for a reason", "error": "Traceback\nlast line"}
    values = {
        "cell": make_cell("raise"),
        "identity": "0123456789abcdef" * 4,
        "status": status,
        "started_at": "2026-11-20T09:00:00.000+00:00",
        "wall_s": 1.25,
        "environment": {"code": "c0de", "machine": {"num_cores": 2}},
        "data": DATA,
        **told,
    }
    return Record(**{**values, **changes})


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("measurement", [None, make_measurement(), FULL], ids=["none", "window", "fit"])
def test_a_file_and_back_is_the_same_record(tmp_path, status, measurement):
    written = make_record(status, measurement=measurement, system=SYSTEM if measurement else None)
    path = record.write(written, tmp_path / "new" / "folder")
    assert path.name == f"{written.cell.id}-01234567.json"
    assert record.read(path) == written


def test_the_file_tells_people_its_id_and_label(tmp_path):
    values = json.loads(record.write(make_record(), tmp_path).read_text())
    assert values["cell_id"] == make_record().cell.id
    assert values["label"] == make_record().cell.label
    assert values["schema_version"] == record.SCHEMA_VERSION


def test_others_may_read_what_is_written(tmp_path):
    assert record.write(make_record(), tmp_path).stat().st_mode & 0o777 == 0o644


def of_another_schema(text):
    return json.dumps(json.loads(text) | {"schema_version": 99})


def without(key):
    return lambda text: json.dumps({k: v for k, v in json.loads(text).items() if k != key})


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (of_another_schema, "a record of schema 99; this accelbench reads schema 3 to 6"),
        (without("schema_version"), "'schema_version'"),
        (without("identity"), "identity"),
        (lambda text: text[: len(text) // 2], "not a readable record"),
        (lambda text: "", "not a readable record"),
        (lambda text: "[]", "not a readable record"),
        (lambda text: "null", "not a readable record"),
        (lambda text: text.replace('"ok"', '"fine"'), "fine"),
        (lambda text: text.replace('"cpu"', '"abacus"'), "abacus"),
    ],
)
def test_what_is_no_record_is_named(tmp_path, spoil, told):
    path = record.write(make_record(), tmp_path)
    path.write_text(spoil(path.read_text()))
    with pytest.raises(UserError, match=told) as raised:
        record.read(path)
    assert str(path) in str(raised.value)


def test_a_file_that_is_no_text_is_named(tmp_path):
    path = tmp_path / "a-b.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="a-b.json"):
        record.read(path)


def planned(folder, records):
    cells = [plan_file.WantedCell(one.cell, one.name) for one in records]
    plan_file.write_plan(plan_file.PlanFile(suite="s", title="", study=None, profile=None, cells=cells), folder)


def test_the_plans_records_are_read_in_its_order(tmp_path):
    cells = [make_cell(batch_size=size) for size in (32, 8, 16, 64)]
    records = [make_record(cell=cell) for cell in cells]
    planned(tmp_path, records)
    for one in (records[3], records[0], records[1]):  # the third was never run
        record.write(one, tmp_path)
    record.write(make_record(cell=make_cell(batch_size=1)), tmp_path)  # of an earlier plan
    assert list(plan_file.read_planned(tmp_path)) == [records[0], records[1], records[3]]


@pytest.mark.parametrize("text", [None, "{", "[]", '{"cells": [{}]}', "{}"])
def test_a_folder_without_a_readable_plan_is_named(tmp_path, text):
    if text is not None:
        (tmp_path / "plan.json").write_text(text)
    with pytest.raises(UserError, match=r"plan.json.*run the sweep (first|again)"):
        list(plan_file.read_planned(tmp_path))


def test_records_are_values():
    with pytest.raises(dataclasses.FrozenInstanceError):
        make_record().status = Status.failed


@pytest.mark.parametrize("field", ["measurement", "status", "identity", "system", "data"])
def test_a_record_that_lacks_a_field_is_not_read_as_if_it_were_unknown(tmp_path, field):
    path = record.write(make_record(), tmp_path)
    values = json.loads(path.read_text())
    del values[field]
    path.write_text(json.dumps(values))
    with pytest.raises(UserError, match=f"not a readable record .*{field}"):
        record.read(path)


def test_texts_of_others_are_safe_to_show_and_the_record_keeps_its_name(tmp_path):
    model = ModelSpec(name="m\x1b]0;x\x07")
    hostile = make_record(
        cell=make_cell(model=model), reason="a\nb\x1b[2J" + "r" * 10**6, error="e" * 10**6 + "\x9b1mthe end"
    )
    path = record.write(hostile, tmp_path)
    read = record.read(path)
    assert read.cell.model.name == r"m\x1b]0;x\x07"
    assert read.reason.startswith(r"a b\x1b[2Jrrr")
    assert (len(read.reason), len(read.error)) == (500, 4000)
    assert read.error.endswith(r"\x9b1mthe end")
    assert f"{read.name}.json" == path.name
    assert read.label == r"m\x1b]0;x\x07-cpu-fp32-b32-infer"
