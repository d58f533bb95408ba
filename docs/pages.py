"""Writes what the pages say of settings from the code: docs/settings.md, and the settings' rows of docs/columns.md."""

from pathlib import Path

import yaml

from accelbench.schema.cell import Cell
from accelbench.schema.setting import declared
from accelbench.settings import about

DOCS = Path(__file__).parent
CONF = DOCS.parent / "conf"
# The row of docs/columns.md after which the declared settings stand, and the heading after them.
BEFORE, AFTER = "| `device` | the device that was asked for | – |\n", "\n## Outcome\n"


def pages() -> dict[str, str]:
    """The pages' names, and their texts."""
    config = yaml.safe_load((CONF / "config.yaml").read_text())
    defaults = {name: value for name, value in config.items() if isinstance(value, str) and "${" not in value}
    defaults |= {name: value for each in config["defaults"] if isinstance(each, dict) for name, value in each.items()}
    defaults |= {"model.name": defaults["model"]}
    return {"columns.md": columns(), "settings.md": about.markdown(CONF, defaults)}


def columns() -> str:
    """docs/columns.md as it is, with a row for each declared setting that is a column."""
    text = (DOCS / "columns.md").read_text()
    before, _, _ = text.partition(BEFORE)
    _, _, after = text.partition(AFTER)
    said = {each.column: each.said for each in declared(Cell) if each.said.column}
    rows = [f"| `{name}` | {each.column} | {each.empty or '–'} |\n" for name, each in said.items()]
    return "".join([before, BEFORE, *rows, AFTER, after])


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text)
