"""The pages that are made from the code are up to date, and leave nothing out."""

import importlib.util
from pathlib import Path

import pytest

from accelbench.judging.row import summarise
from accelbench.report import columns
from report.conftest import Maker

DOCS = Path(__file__).resolve().parents[1] / "docs"
spec = importlib.util.spec_from_file_location("pages", DOCS / "pages.py")
pages = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pages)


@pytest.mark.parametrize("name", ["columns.md", "settings.md"])
def test_a_made_page_is_what_the_code_makes(name: str) -> None:
    assert (DOCS / name).read_text() == pages.pages()[name], "run: python docs/pages.py"


def test_every_column_is_explained_once() -> None:
    explained = [name for group in columns.GROUPS.values() for name in group]
    row = summarise(Maker().ok(Maker().cell(), 1000))
    assert sorted(explained) == sorted([*row, "cell", "num_processes", "scaling_efficiency"])
