import html
import json
import re
from collections import Counter
from pathlib import Path

from report.conftest import BAD_REASON


def cells_in(page: str) -> list[str]:
    """The text of each cell of a table, as a browser would show it."""
    found = re.findall(r"<(t[dh])\b[^>]*>(.*?)</\1>", page, re.DOTALL)
    return [html.unescape(re.sub(r"<[^>]*>", "", text)) for _, text in found]


def test_page_and_markdown_have_the_same_answers_and_tables_and_text_from_users_is_text(report: Path) -> None:
    page, text = ((report / name).read_text() for name in ("index.html", "report.md"))
    for tag in ("table", "tr", "td", "th", "details", "section", "div", "script"):
        assert len(re.findall(rf"<{tag}\b", page)) == page.count(f"</{tag}>"), tag
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert [row[data["names"].index("reason")] for row in data["rows"]].count(BAD_REASON) == 1
    assert cells_in(page).count(BAD_REASON) == 1
    assert not re.search(r"(?<!\\u003cscript\\u003e)(?<!&lt;script&gt;)alert\(", page)
    begin = "".join(f"    {line}".rstrip() + "\n" for line in (report / "headline.txt").read_text().splitlines())
    assert text.startswith(f"# accelbench report\n\n{begin}")
    rows = [line for line in text.splitlines() if line.startswith("|") and not line.startswith("|---")]
    cells = [cell.strip() for row in rows for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
    plain = [html.unescape(re.sub(r"\\(.)", r"\1", cell)) for cell in cells if cell]
    assert "no NVIDIA GPU: libnvidia-ml.so.1 not found" in plain
    assert Counter(plain) <= Counter(cells_in(page))
    assert len(text.split()) < 480
