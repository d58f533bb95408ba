"""Numbers and names that README.md and docs/ state are those of the code and of params.yaml."""

import importlib.util
import re
from pathlib import Path

import pytest

from accelbench.judging.row import summarise
from accelbench.schema import json_schema
from report.conftest import Maker

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = [*summarise(Maker().ok(Maker().cell(), 1000)), "cell", "num_processes", "scaling_efficiency"]


def script(name):
    """The module docs/NAME.py."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["columns.md", "serving.md", "settings.md"])
def test_a_made_page_is_what_the_code_makes(name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == script("pages").pages()[name], "run: python docs/pages.py"


@pytest.mark.slow
def test_the_pictures_and_printed_outputs_are_of_this_code() -> None:
    assert script("screens").older() == [], "run: python docs/screens.py --older"


def test_every_column_is_explained_once_and_those_that_the_pages_name_exist() -> None:
    first_cells = re.findall(r"^\| (`.*?) \|", (ROOT / "docs/columns.md").read_text(), re.MULTILINE)
    explained = re.findall(r"`(\w+)`", " ".join(first_cells))
    assert sorted(explained) == sorted(COLUMNS)
    text = "".join(path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    named = set(re.findall(r"`(\w+_(?:ms|mb|per_sample|per_s|share|shares|provenance))`", text))
    assert len(named) > 5
    assert named <= {*COLUMNS, "counts"}


def test_the_fields_that_the_pages_name_are_those_of_a_record() -> None:
    table = (ROOT / "docs/records.md").read_text().partition("| field | meaning |")[2].partition("\n\n")[0]
    names = re.findall(r"`([a-z_.]+)(?:\[\])?`", " ".join(line.split("|")[1] for line in table.splitlines()[2:]))
    schema = json_schema.record()
    parts = {"measurement": "Measurement", "environment": "Environment", "system": "SystemSeries", "data": "Data"}
    assert len(names) > 25
    for name in names:
        parent, _, field = name.rpartition(".")
        assert field in (schema["definitions"][parts[parent]] if parent else schema)["properties"], name
