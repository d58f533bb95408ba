"""Writes what is computed: settings.md, rules.md, and tables of records.md, columns.md and serving.md."""

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from accelbench.rules.combinations import MISTAKES, NEEDS, SKIPPED, USED
from accelbench.rules.conditions import Rule
from accelbench.schema import json_schema
from accelbench.schema.cell import Cell
from accelbench.schema.json_schema import Schema
from accelbench.schema.setting import declared
from accelbench.settings.config import every_setting

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))
import wrong_ways  # noqa: E402

CONF = DOCS.parent / "conf"
# The row of docs/columns.md after which the declared settings stand, and the heading after them.
BEFORE, AFTER = "| `device` | the device that was asked for | – |\n", "\n## Outcome\n"
WRONG = "| what is done | it says | what holds |\n|---|---|---|\n"  # the heading of the table in docs/serving.md

FIELDS = "| field | kind | meaning |\n|---|---|---|\n"  # the heading of the table in docs/records.md
MAX_CELL = 118  # characters of a meaning there
MAX_WORDS = 100  # characters of a list of choices in a table


def pages() -> dict[str, str]:
    """The pages' names, and their texts."""
    config = yaml.safe_load((CONF / "config.yaml").read_text())
    defaults = {name: value for name, value in config.items() if isinstance(value, str) and "${" not in value}
    for group in config["defaults"]:
        if isinstance(group, dict):
            defaults |= group
    defaults |= {"model.name": defaults["model"]}
    made = {"columns.md": columns, "records.md": records, "serving.md": serving}
    return {"settings.md": settings(defaults), "rules.md": rules(), **{name: make() for name, make in made.items()}}


def columns() -> str:
    """docs/columns.md as it is, with a row for each declared setting that is a column."""
    text = (DOCS / "columns.md").read_text()
    before, _, _ = text.partition(BEFORE)
    _, _, after = text.partition(AFTER)
    said = {each.column: each.said for each in declared(Cell) if each.said.column}
    rows = [f"| `{name}` | {each.help} | {each.empty or '–'} |\n" for name, each in said.items()]
    return "".join([before, BEFORE, *rows, AFTER, after])


def records() -> str:
    """docs/records.md as it is, with a row for each field of a record but those of its cell, which are settings."""
    before, _, _ = (DOCS / "records.md").read_text().partition(FIELDS)
    rows = []
    schema = json_schema.record()
    for name, field in _fields(schema, schema["definitions"]):
        if not name.startswith("cell."):
            meaning = field.get("description") or name.rpartition(".")[2].replace("_", " ").removesuffix("[]")
            rows.append(f"| `{name}` | {_kind(field, schema['definitions'])} | {_cut(meaning)} |\n")
    return "".join([before, FIELDS, *rows])


def _fields(schema: Schema, known: dict[str, Schema], prefix: str = "") -> Iterator[tuple[str, Schema]]:
    """Yields the dotted name and the schema of each field of an object and of those in it; `[]` follows a list's."""
    for name, field in schema["properties"].items():
        inner = next(each for each in field.get("anyOf", [field]) if each.get("type") != "null")
        is_list = inner.get("type") == "array"
        inner = inner["items"] if is_list and isinstance(inner["items"], dict) else inner
        path = f"{prefix}{name}[]" if is_list else f"{prefix}{name}"
        yield path, field
        inner = known[_named(inner)] if "$ref" in inner else {}
        if "properties" in inner:
            yield from _fields(inner, known, f"{path}.")


def _named(field: Schema) -> str:
    return str(field["$ref"].rpartition("/")[2])


def _kind(field: Schema, known: dict[str, Schema]) -> str:
    """The type of a field in words, and whether it may be null."""
    if "anyOf" in field:
        return f"{_kind(field['anyOf'][0], known)} or null"
    if field.get("type") == "array":
        items = field["items"]
        return f"list of {_kind(items[0] if isinstance(items, list) else items, known)}"
    if "$ref" in field:
        return "word" if "enum" in known[_named(field)] else "object"
    words = {"string": "text", "boolean": "true or false", "integer": "whole number", "number": "number"}
    return words.get(field.get("type", ""), "object")


def _cut(text: str) -> str:
    """What fits into a table's cell."""
    return textwrap.shorten(text.replace("|", "or").replace("None", "null"), MAX_CELL, placeholder=" ...")


def serving() -> str:
    """docs/serving.md as it is, with the table of wrong ways to load a model."""
    before, _, after = (DOCS / "serving.md").read_text().partition(WRONG)
    _, end, after = after.partition("\n\n")
    return "".join([before, WRONG, *wrong_ways.rows(), end[1:], after])


def rules() -> str:
    """The page docs/rules.md."""
    lines = ["# What goes with what", ""]
    lines += [
        "The terms of a condition hold together: `devices>1`, `threads` (it was given), `!model.loss` (it was not),"
    ]
    lines += ["`fused` (a fact of the device). This page is made from the code by `python docs/pages.py`."]
    lines += ["", "## Settings that need others", ""]
    for each in NEEDS:
        among = f" if `{each.among}`" if each.among else ""
        lines.append(f"- `{each.settings}` needs `{each.needed}`{among}")
    lines += ["", "## Mistakes", "", "The command is refused with exit status 2.", "", *map(_rule, MISTAKES)]
    lines += ["", "## Skipped cells", "", "A cell of a sweep is skipped, with this reason.", "", *map(_rule, SKIPPED)]
    lines += ["", "## Without effect", "", "Elsewhere a cell has the defaults of these settings.", ""]
    lines += [f"- `{each.settings}` has an effect with `{each.needed}`" for each in USED]
    return "\n".join(lines) + "\n"


def _rule(rule: Rule) -> str:
    text = f"{rule.refuse}: use {rule.instead}" if rule.instead else rule.refuse
    return f"- `{rule.when}`: " + re.sub(r"[{](.*?)[}]", r"(`\1`)", text)


def settings(defaults: dict[str, Any]) -> str:
    """The page docs/settings.md."""
    lines = [
        "# The settings",
        "",
        "`accelbench name=value` sets one, `accelbench -m name=value,value` sweeps it. `accelbench --cfg job` prints",
        "the values that a run would have. This page is made from the code by `python docs/pages.py`.",
        "",
        "![A word that is not a setting's is refused, with the words that are](images/wrong-word.png)",
        "",
        "| setting | default | values | meaning |",
        "|---|---|---|---|",
    ]
    for each in every_setting(CONF):
        words = ", ".join(each.choices)
        words = words if len(words) <= MAX_WORDS else f"a file's name in conf/{each.name}/"
        default = defaults.get(each.name) if each.default is None else each.default
        lines.append(
            f"| `{each.name}` | {_shown(default)} | {words or each.kind.removeprefix('a ')} | {each.meaning} |"
        )
    return "\n".join(lines) + "\n"


def _shown(default: Any) -> str:
    if default is None or default in ({}, [], (), ""):
        return "–"
    default = list(default) if isinstance(default, tuple) else default
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text)
