import ast
from pathlib import Path

import pytest

from accelbench.report.tables.lies import LIES, Remedy, table

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "how-a-benchmark-lies.md"


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: f"{lie.study}: {lie.claim[:40]}")
def test_each_names_a_test_that_there_is(lie):
    path, _, name = lie.test.partition("::")
    functions = {
        node.name for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.FunctionDef)
    }
    assert name in functions


def test_every_study_has_its_own():
    assert {lie.study for lie in LIES} == {"000", "001", "002", "003", "004"}
    assert {lie.answer for lie in LIES} == set(Remedy)


def test_the_docs_hold_the_same_table():
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    ours = table()
    rows = [ours.headings, *([entry.text for entry in row] for row in ours.rows)]
    assert lines == ["| " + " | ".join(row) + " |" for row in rows]
