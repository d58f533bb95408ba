"""The JSON Schema of records and plans; that every record of the tests fits it is checked in tests/conftest.py."""

import json

import fastjsonschema
import pytest

from accelbench.cli import main
from accelbench.schema.record import SCHEMA_VERSION
from report.conftest import Maker


@pytest.fixture
def written(tmp_path):
    maker = Maker()
    folder = maker.suite(tmp_path, [maker.ok(maker.cell(), 1000.0)], waiting=[maker.cell(batch_size=8)])
    return {path.name == "plan.json": json.loads(path.read_text()) for path in folder.iterdir()}


def test_the_command_prints_schemas_that_a_record_and_a_plan_fit(written, capsys):
    for is_plan, name in ((False, "record-schema"), (True, "plan-schema")):
        assert main(["export", "--format", name]) == 0
        schema = json.loads(capsys.readouterr().out)
        fastjsonschema.validate(schema, written[is_plan])
        assert f"schema {SCHEMA_VERSION}" in schema["title"]
        meaning = schema["definitions"]["Cell"]["properties"]["batch_size"]["description"]
        assert meaning.startswith("samples")


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda values: values["measurement"]["blocks"][0].update(seconds=-1.0), "measurement"),
        (lambda values: values["cell"].update(precision="fp31"), "precision"),
        (lambda values: values.update(identity="no digest"), "identity"),
        (lambda values: values.update(colour="red"), "colour"),
        (lambda values: values.pop("system"), "system"),
    ],
)
def test_another_file_does_not_fit(written, fits_schema, change, where):
    change(written[False])
    with pytest.raises(fastjsonschema.JsonSchemaException, match=where):
        fits_schema(written[False])
