import re
from pathlib import Path

from five_studies.published import known_errors, known_errors_table

ROOT = Path(__file__).resolve().parents[2]


def test_each_names_a_test_that_there_is_and_the_docs_hold_the_same_errors():
    for error in known_errors():
        path, _, name = error.test.partition("::")
        assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE), error.test
    text = (ROOT / "docs/studies.md").read_text().partition("## How a benchmark lies\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    rows = [("study", "what was done", "here")]
    for cells in known_errors_table().rows:
        study, done, _, here, how, _ = [cell.text for cell in cells]
        rows.append((study.partition(",")[0], done, f"{here.capitalize()}. {how}"))
    assert lines == ["| " + " | ".join(row) + " |" for row in rows]
