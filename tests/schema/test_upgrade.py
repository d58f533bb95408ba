"""Records that older releases wrote (schema3.json to schema7.json: with shorter lists), read by this one."""

import json
import re
import shutil
from pathlib import Path

import pytest

from accelbench.judging.row import summarise
from accelbench.schema import plan_file, record
from accelbench.schema.cell import KerasSettings, Options
from accelbench.schema.record import OtherSchemaError, read, read_all
from accelbench.schema.vocab import ModelOutput, Status, Stop
from schema.test_record import make_record

OLDER = {version: Path(__file__).parent / "older" / f"schema{version}.json" for version in (3, 4, 5, 6, 7)}

DISTURBED = {
    3: "others used 0.9 of 2 cores",
    4: "others used 0.3 of 2 cores",
    5: "others used 1.7 of 2 cores",
    6: None,  # the machine was quiet
    7: "others used 1.6 of 2 cores",
}
NAMES = {6: ["aten::addmm", "aten::copy_", "aten::clamp_min"]}  # of the operators in the records


@pytest.fixture(params=OLDER)
def older(request, tmp_path):
    """An older record's file, named as its release named it, its values, and its schema."""
    values = json.loads(OLDER[request.param].read_text())
    path = tmp_path / f"{values['cell_id']}-{values['identity'][:8]}.json"
    shutil.copy(OLDER[request.param], path)
    return path, values, request.param


def test_an_older_record_keeps_what_was_measured(older):
    path, values, _ = older
    found = read(path)
    assert (found.status, found.identity, found.wall_s) == (Status.ok, values["identity"], values["wall_s"])
    assert [block.seconds for block in found.measurement.blocks] == [
        block["seconds"] for block in values["measurement"]["blocks"]
    ]
    assert found.measurement.latency_s == values["measurement"]["latency_s"]
    assert found.system.values == values["system"]["values"]
    assert summarise(found)["disturbed"] == DISTURBED[values["schema_version"]]
    assert (summarise(found)["samples_per_s"] is None) == (summarise(found)["disturbed"] is not None)
    assert found.name == path.stem


def test_what_did_not_exist_yet_is_unknown_or_was_off(older):
    path, _, version = older
    found = read(path)
    cell, measured = found.cell, found.measurement
    assert (cell.devices, cell.options, cell.xla_processes) == (1, Options(), False)
    assert (measured.fallbacks, measured.cudnn_benchmark) == (None, None)
    assert [operator.name for operator in measured.operators] == NAMES.get(version, [])
    assert cell.model.output == ModelOutput.logits
    assert (cell.model.batch, cell.model.inputs, cell.data.target, cell.trainer) == (None, (), None, None)
    assert cell.keras == (KerasSettings() if version == 5 else None)
    if version == 3:
        assert (cell.breakdown_s, cell.window.width) == (0.0, 1.0)
        assert (measured.stop, measured.settled, measured.work, measured.breakdown) == (None, None, None, None)
        assert summarise(found)["num_warmup_steps"] is None
    elif version == 7:
        assert (measured.checks, measured.dropped_s, cell.model.constant) == ([], None, False)
    else:
        assert (cell.breakdown_s, cell.window.width) == (0.3, 0.02)
        assert (measured.stop, measured.settled) == (Stop.noisy, True)
        assert measured.work.flops == 76349440


def test_an_older_record_that_is_written_again_stays_the_same_record(older, tmp_path):
    path, values, _ = older
    written = record.write(read(path), tmp_path / "new")
    assert written.name == path.name
    assert read(written) == read(path)
    again = json.loads(written.read_text())
    assert (again["schema_version"], again["cell_id"]) == (values["schema_version"], values["cell_id"])


def test_an_older_plan_is_read_with_its_records(older):
    path, values, version = older
    entry = {"cell_id": values["cell_id"], "label": values["label"], "record": path.stem, "cell": values["cell"]}
    head = {"schema_version": version, "suite": "s", "title": "t", "study": None, "profile": None}
    (path.parent / "plan.json").write_text(json.dumps({**head, "cells": [entry]}))
    assert list(plan_file.read_planned(path.parent)) == [read(path)]
    (wanted,) = plan_file.read_plan(path.parent).cells
    assert wanted.cell == read(path).cell


@pytest.mark.parametrize("version", [None, "5", "\x1b]0;", 0, 2, record.SCHEMA_VERSION + 1])
def test_a_schema_that_can_not_be_read_is_named(tmp_path, version):
    path = record.write(make_record(), tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": version}))
    with pytest.raises(
        OtherSchemaError, match=re.escape(f"(schema {version!r}; this accelbench reads schema 3 to 8")
    ) as e:
        read(path)
    assert e.value.version == version
    assert str(path) in str(e.value)


def test_what_can_not_be_read_is_counted_by_reason(tmp_path):
    good = [record.write(make_record(identity=digit * 64), tmp_path) for digit in "12"]
    values = json.loads(good[0].read_text())
    bad = {"a": "{", "b": json.dumps(values | {"schema_version": 2}), "c": json.dumps(values | {"schema_version": 2})}
    for name, text in bad.items():
        (tmp_path / f"{name}.json").write_text(text)
    found = read_all(sorted(tmp_path.glob("*.json")))
    assert [each.identity[0] for each in found] == ["1", "2"]
    assert [path.stem for path in found.refused] == ["a", "b", "c"]
    assert found.refused_text == "2 of schema 2, 1 without a readable record"
    assert len(list(found)) == 2
    assert len(found.refused) == 3  # counted anew, not added up
    assert read_all(good).refused_text == ""
