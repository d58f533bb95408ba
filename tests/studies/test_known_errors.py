import ast
from pathlib import Path

import pytest

from five_studies.published import known_errors, known_errors_table

ROOT = Path(__file__).resolve().parents[2]
ERRORS = known_errors()
PAGE = ROOT / "docs" / "how-a-benchmark-lies.md"


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: f"{error.study}: {error.done[:40]}")
def test_each_names_a_test_that_there_is(error):
    path, _, name = error.test.partition("::")
    functions = {
        node.name for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.FunctionDef)
    }
    assert name in functions


def test_the_docs_hold_the_same_table():
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    ours = known_errors_table()
    rows = [ours.headings, *([entry.text for entry in row] for row in ours.rows)]
    assert lines == ["| " + " | ".join(row) + " |" for row in rows]
