"""Numbers and names that README.md and docs/ state are those of the code and of params.yaml."""

import importlib.util
import re
from pathlib import Path

import pytest

from accelbench.judging.row import summarise
from accelbench.schema.vocab import Status
from accelbench.settings import params
from report.conftest import Maker

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = [*summarise(Maker().ok(Maker().cell(), 1000)), "cell", "num_processes", "scaling_efficiency"]
SPEC = importlib.util.spec_from_file_location("pages", ROOT / "docs" / "pages.py")


@pytest.mark.parametrize("name", ["columns.md", "settings.md"])
def test_a_made_page_is_what_the_code_makes(name: str) -> None:
    pages = importlib.util.module_from_spec(SPEC)
    SPEC.loader.exec_module(pages)
    assert (ROOT / "docs" / name).read_text() == pages.pages()[name], "run: python docs/pages.py"


def test_every_column_is_explained_once_and_those_that_the_pages_name_exist() -> None:
    explained = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/columns.md").read_text(), re.MULTILINE)
    assert sorted(explained) == sorted(COLUMNS)
    text = "".join(path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    named = set(re.findall(r"`(\w+_(?:ms|mb|per_sample|per_s|share|shares|provenance))`", text))
    assert len(named) > 5
    assert named <= {*COLUMNS, "counts"}


def text_of(name: str) -> str:
    """A page, with its lines joined where a sentence goes on."""
    return " ".join((ROOT / name).read_text().split())


def test_the_pages_name_every_status() -> None:
    pattern = r"gets a `skipped` record with the reason[.;] (?:Every|any) other(?: cell)? ends as ([^.(]*)"
    for page_name in ("README.md", "docs/sweeps.md"):
        (sentence,) = re.findall(pattern, text_of(page_name))
        assert {*re.findall(r"`(\w+)`", sentence), "skipped"} == set(Status)


def test_the_page_of_the_studies_lists_every_suite() -> None:
    table = (ROOT / "docs/studies.md").read_text().partition("| study | what it measured | suite |")[2]
    rows = table.partition("\n\n")[0].splitlines()
    listed = {name for line in rows for name in re.findall(r"`(\w+)`", line.rpartition(" | ")[2])}
    assert listed == set(params.load(ROOT).suites)
