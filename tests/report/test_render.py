import html
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest

REASON = '<script>alert("x")</script> | a *bad* reason'  # of a failed cell in the sample
VOID = {"meta", "link", "img", "input"}


class Parsed(HTMLParser):
    """What a browser would see: the tags with their attributes, and each table cell's text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.cells: list[str] = []
        self.data = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == ("script", {"type": "application/json", "id": "data"}):
            self.data += data
        if {"td", "th"} & {*self.open}:
            self.cells[-1] += data


@pytest.fixture(scope="module")
def parsed(report: Path) -> Parsed:
    return Parsed((report / "index.html").read_text())


def test_the_page_is_well_formed_and_text_from_users_is_text(report: Path, parsed: Parsed) -> None:
    assert parsed.open == []
    assert parsed.cells.count(REASON) == 1
    kinds = [attrs.get("type") for tag, attrs in parsed.tags if tag == "script"]
    assert kinds == ["application/json", *[None] * 2, "application/json", *[None] * 6]
    data = json.loads(parsed.data)
    assert [row[data["names"].index("reason")] for row in data["rows"]].count(REASON) == 1
    assert not re.search(r"(?<!\\u003cscript\\u003e)(?<!&lt;script&gt;)alert\(", (report / "index.html").read_text())


def test_markdown_begins_with_the_answers_and_has_tables_that_are_on_the_page_too(report: Path, parsed: Parsed) -> None:
    text = (report / "report.md").read_text()
    begin = "".join(f"    {line}".rstrip() + "\n" for line in (report / "headline.txt").read_text().splitlines())
    assert text.startswith(f"# accelbench report\n\n{begin}")
    rows = [line for line in text.splitlines() if line.startswith("|") and not line.startswith("|---")]
    cells = [cell.strip() for row in rows for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
    plain = [html.unescape(re.sub(r"\\(.)", r"\1", cell)) for cell in cells if cell]
    assert "no NVIDIA GPU: libnvidia-ml.so.1 not found" in plain
    assert Counter(plain) <= Counter(parsed.cells)
    assert len(text.split()) < 480
