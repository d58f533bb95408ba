import ast
from pathlib import Path

import pytest

from five_studies.published import known_errors, known_errors_table

ROOT = Path(__file__).resolve().parents[2]
ERRORS = known_errors()
PAGE = ROOT / "docs" / "studies.md"


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: f"{error.study}: {error.done[:40]}")
def test_each_names_a_test_that_there_is(error):
    path, _, name = error.test.partition("::")
    functions = {
        node.name for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.FunctionDef)
    }
    assert name in functions


def test_the_docs_hold_the_same_errors():
    text = PAGE.read_text().partition("## How a benchmark lies\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    rows = [("study", "what was done", "here")]
    for cells in known_errors_table().rows:
        study, done, _, here, how, _ = [cell.text for cell in cells]
        rows.append((study.partition(",")[0], done, f"{here.capitalize()}. {how}"))
    assert lines == ["| " + " | ".join(row) + " |" for row in rows]
