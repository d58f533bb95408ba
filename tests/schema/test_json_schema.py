"""The JSON Schema of records and plans; that every record of the tests fits it is checked in tests/conftest.py."""

import json

import fastjsonschema
import pytest

from accelbench.cli import main
from accelbench.schema.record import SCHEMA_VERSION
from fakes import make_record, write_sweep


@pytest.fixture
def written(tmp_path):
    write_sweep(tmp_path, make_record())
    return {path.name == "plan.json": json.loads(path.read_text()) for path in tmp_path.iterdir()}


def test_the_command_prints_schemas_that_a_record_and_a_plan_fit(written, capsys):
    for is_plan, name in ((False, "record-schema"), (True, "plan-schema")):
        assert main(["export", "--format", name]) == 0
        schema = json.loads(capsys.readouterr().out)
        fastjsonschema.validate(schema, written[is_plan])
        assert f"schema {SCHEMA_VERSION}" in schema["title"]
        meaning = schema["definitions"]["Cell"]["properties"]["batch_size"]["description"]
        assert meaning.startswith("samples")


@pytest.mark.parametrize(
    "changes", [{"measurement": {}}, {"identity": "no digest"}, {"colour": "red"}, {"system": "none"}]
)
def test_another_file_does_not_fit(written, fits_schema, changes):
    with pytest.raises(fastjsonschema.JsonSchemaException, match=next(iter(changes))):
        fits_schema(written[False] | changes)
