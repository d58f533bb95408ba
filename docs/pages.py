"""Writes the computed parts of the pages: settings.md, and tables of columns.md and serving.md."""

import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from accelbench.rules import NEEDS, SKIPPED, Rule
from accelbench.schema.cell import Cell
from accelbench.schema.setting import declared
from accelbench.settings.config import every_setting

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))
import wrong_ways  # noqa: E402

CONF = DOCS.parent / "conf"
# The row of docs/columns.md after which the declared settings stand, and the heading after them.
BEFORE, AFTER = "| `arguments` | arguments of the network, of its batches and its data |\n", "\n## Outcome\n"
WRONG = "| wrong way | it reports | the truth |\n|---|---|---|\n"  # the heading of the table in docs/serving.md

MAX_CELL = 118  # characters of a table's cell
MAX_TERMS = 2  # of a rule that the page lists
SETTING = re.compile(r"(device|devices|engine(?!\.)|mode|precision|protocol)\b")
PREFIX = re.compile(r"^[\w.]+(=\S+)?: ")  # the setting that a reason begins with
MAX_WORDS = 100  # characters of a list of choices in a table


def pages() -> dict[str, str]:
    """Returns name -> text of each page."""
    config = yaml.safe_load((CONF / "config.yaml").read_text())
    defaults = {name: value for name, value in config.items() if isinstance(value, str) and "${" not in value}
    for group in config["defaults"]:
        if isinstance(group, dict):
            defaults |= group
    defaults |= {"model.name": defaults["model"]}
    made = {"columns.md": columns, "serving.md": serving}
    return {"settings.md": settings(defaults), **{name: make() for name, make in made.items()}}


def columns() -> str:
    """Returns docs/columns.md with a new row for each declared setting that is a column."""
    text = (DOCS / "columns.md").read_text()
    before, _, _ = text.partition(BEFORE)
    _, _, after = text.partition(AFTER)
    names = [each.name for each in every_setting(CONF)]
    by_field = {name.rpartition(".")[2]: name for name in names}
    same = []
    rows = []
    for each in declared(Cell):
        if each.column:
            setting = each.path if each.path in names else by_field[each.path.rpartition(".")[2]]
            if setting == each.column:
                same.append(setting)
            else:
                rows.append(f"| `{each.column}` | `{setting}` |\n")
    rows += _shared(same, "the setting of that name")
    return "".join([before, BEFORE, *rows, AFTER, after])


def _shared(names: Iterable[str], meaning: str) -> Iterator[str]:
    """Yields rows of a table for names with one meaning. Each row has as many names as fit into its cell."""
    for line in textwrap.wrap(", ".join(f"`{name}`" for name in names), MAX_CELL):
        yield f"| {line.rstrip(',')} | {meaning} |\n"


def serving() -> str:
    """Returns docs/serving.md with a new table of wrong ways to load a model."""
    before, _, after = (DOCS / "serving.md").read_text().partition(WRONG)
    _, end, after = after.partition("\n\n")
    return "".join([before, WRONG, *wrong_ways.rows(), end[1:], after])


def rules() -> Iterator[str]:
    """Yields the last part of docs/settings.md: what goes with what."""
    yield "## What goes with what"
    yield ""
    yield "Below, `x=a,b` means: x is a or b. `x!=a`: x is not a. `!x`: x is not set. `x=a y=b`: both are true."
    yield ""
    yield "### Settings that not every cell reads"
    yield ""
    yield "After the colon is the condition under which a cell reads these settings. Other cells ignore them."
    yield "If you type a setting that no cell of the command reads, the command ends with exit status 2."
    yield "Settings that contradict each other, such as `protocol=target data=random`, also end it with status 2."
    yield ""
    for needs in NEEDS:
        among = f" if `{needs.among}`" if needs.among else ""
        yield f"- {_listed(needs.settings)}: `{needs.needed}`{among}"
    yield from ["", "### Skipped", ""]
    yield "A sweep skips a cell (one combination of settings) with the settings on the left. These are frequent cases."
    yield "`accelbench plan` prints all skipped cells, with the reason."
    yield ""
    yield from _lines(rule for rule in SKIPPED if _is_short(rule))


def _listed(settings: str) -> str:
    return ", ".join(f"`{name}`" for name in settings.split())


def _is_short(rule: Rule) -> bool:
    """Is true if a rule has at most two terms, all about frequent settings, and if its advice explains it."""
    terms = rule.when.split()
    is_frequent = all(SETTING.match(term) for term in terms)
    return is_frequent and len(terms) <= MAX_TERMS and _text(rule).startswith("use ")


def _lines(rules: Iterable[Rule]) -> Iterator[str]:
    """Yields a line for each rule. Rules with the same text share a line."""
    conditions: dict[str, list[str]] = {}
    for rule in rules:
        conditions.setdefault(_text(rule), []).append(f"`{rule.when}`")
    for text, each in conditions.items():
        yield f"- {', '.join(each)}: {text}"


def _text(rule: Rule) -> str:
    """Returns the settings to use instead of what a rule refuses. If it names no settings, adds the reason."""
    text = f"use {rule.instead}"
    if "=" not in rule.instead or rule.instead.startswith("it"):
        reason = PREFIX.sub("", rule.refuse)
        text = f"{reason}: {text}" if rule.instead else reason
    return re.sub(r"[{](.*?)[}]", r"`\1`", re.sub(r" for (\w+=)?[{].*?[}]$", "", text))


def settings(defaults: dict[str, Any]) -> str:
    """Returns the page docs/settings.md."""
    lines = [
        "# The settings",
        "",
        "`accelbench name=value` sets one setting. `accelbench -m name=value,value` measures several values of it.",
        "`accelbench --cfg job` prints the values that a run would have. In the table, defaults are in `this type`.",
        "",
        "![accelbench refuses a wrong value, and lists the right ones](images/wrong-word.png)",
        "",
        "| setting | values | meaning |",
        "|---|---|---|",
    ]
    for each in every_setting(CONF):
        default = _shown(defaults.get(each.name) if each.default is None else each.default)
        if len(", ".join(each.choices)) > MAX_WORDS:
            values = f"{default}, or the name of another file in conf/{each.name}/"
        elif each.choices:
            values = ", ".join(default if default == f"`{word}`" else word for word in each.choices)
        else:
            values = default or each.kind.removeprefix("a ")
        lines.append(f"| `{each.name}` | {values} | {each.meaning} |")
    return "\n".join([*lines, "", *rules()]) + "\n"


def _shown(default: Any) -> str:
    if default is None or default in ({}, [], (), ""):
        return ""
    default = list(default) if isinstance(default, tuple) else default
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text)
