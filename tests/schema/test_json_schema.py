"""The JSON Schema of records and plans; that every record of the tests fits it is checked in tests/conftest.py."""

import json

import fastjsonschema
import pytest

from accelbench.cli import main
from accelbench.schema.record import SCHEMA_VERSION
from fakes import make_record, write_sweep


def test_the_command_prints_schemas_that_a_record_and_a_plan_fit_and_no_other_file(tmp_path, capsys):
    write_sweep(tmp_path, make_record())
    written = {path.name == "plan.json": json.loads(path.read_text()) for path in tmp_path.iterdir()}
    for is_plan, name in ((True, "plan-schema"), (False, "record-schema")):
        assert main(["export", "--format", name]) == 0
        schema = json.loads(capsys.readouterr().out)
        fastjsonschema.validate(schema, written[is_plan])
        assert f"schema {SCHEMA_VERSION}" in schema["title"]
        meaning = schema["definitions"]["Cell"]["properties"]["batch_size"]["description"]
        assert meaning.startswith("samples")
    for changes in ({"measurement": {}}, {"identity": "no digest"}, {"colour": "red"}, {"system": "none"}):
        with pytest.raises(fastjsonschema.JsonSchemaException, match=next(iter(changes))):
            fastjsonschema.validate(schema, written[False] | changes)
