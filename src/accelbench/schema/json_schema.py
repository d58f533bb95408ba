"""JSON Schema (draft 7) of the files that are kept, made of the types that `schema.converters` reads them by.

What a field means stands in the comment beside its declaration, or in the declaration of a setting.
"""

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterable
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from accelbench.schema.cell import Cell
from accelbench.schema.plan_file import HEAD, PlanFile
from accelbench.schema.ranges import Range
from accelbench.schema.record import SCHEMA_VERSION, Record, RecordName
from accelbench.schema.setting import KEY, declared

DRAFT = "http://json-schema.org/draft-07/schema#"
NAMES = {str: "string", bool: "boolean", int: "integer", float: "number"}
# Columns of processes.csv that are no settings, and no numbers.
TEXTS = (
    *("suite", "mode", "engine", "model", "arguments", "data", "device", "weights", "input_shape", "scaling", "status"),
    *("reason", "cell_id", "identity", "started_at", "node", "data_source", "stopped", "busiest_operators", "bound"),
    *("energy_provenance", "time_provenance", "device_name", "allocator_library", "disturbed", "warnings", "tips"),
    *("notes", "cell", "verdict"),
)
FLAGS = ("stand_in", "settled", "cudnn_benchmark", "counts", "target_reached")
COMMENT = re.compile(r"\s*#\s?(.*)")
Schema = dict[str, Any]


def record() -> Schema:
    """The schema of a record's file. Every field is there; null stands for what is unknown."""
    known: dict[str, Schema] = {}
    _of(Record, known)
    whole = known.pop(Record.__name__)
    return _headed("record", {**whole, "definitions": known}) | {"required": sorted(whole["properties"])}


def plan() -> Schema:
    """The schema of plan.json."""
    known: dict[str, Schema] = {}
    hints = get_type_hints(PlanFile, include_extras=True)
    entry = {"cell_id": _of(str, known), "label": _of(str, known), "record": _of(RecordName, known)}
    entry |= {"cell": _of(Cell, known), "planned_in": _of(str, known)}
    cells = {"type": "array", "items": _object(entry, [name for name in entry if name != "planned_in"])}
    fields = {"schema_version": {"const": SCHEMA_VERSION}, **{name: _of(hints[name], known) for name in HEAD}}
    fields["cells"] = cells
    return _headed("plan", {**_object(fields, [*fields]), "definitions": known})


def processes(columns: Iterable[str]) -> Schema:
    """The schema of what `export --format json` lists as `processes`: rows of processes.csv, which has these columns.

    null stands for what is unknown; a later release may have more columns.
    """
    kinds = {each.column: each.kind for each in declared(Cell)} | dict.fromkeys(TEXTS, str) | dict.fromkeys(FLAGS, bool)
    rows = {name: _of(kinds.get(name, float) | None, {}) for name in columns}
    row = {**_object(rows, [*rows]), "additionalProperties": True}
    return _headed("processes", {"type": "array", "items": row})


@cache
def meanings(cls: Any) -> dict[str, str]:
    """What each field of a class means: the help of a setting, or the comment beside or above its declaration.

    A comment above a field holds for those below it that it names.
    """
    found: dict[str, str] = {}
    for base in reversed(getattr(cls, "__mro__", ())):
        if dataclasses.is_dataclass(base) or is_typeddict(base):
            found |= _commented(base)
    own = getattr(cls, "__dataclass_fields__", {}).values()
    return found | {each.name: each.metadata[KEY].help for each in own if KEY in each.metadata}


def _commented(cls: Any) -> dict[str, str]:
    lines = textwrap.dedent(inspect.getsource(cls)).splitlines()
    body = ast.parse("\n".join(lines)).body[0]
    found, above = dict[str, str](), ""
    for node in getattr(body, "body", ()):
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.end_lineno):
            above = ""
            continue
        comments, line = list[str](), node.lineno - 2
        while comment := COMMENT.fullmatch(lines[line]):
            comments.insert(0, comment[1])
            line -= 1
        own = COMMENT.fullmatch(lines[node.end_lineno - 1][node.end_col_offset :])
        name, above = node.target.id, " ".join(comments) or above
        found[name] = own[1] if own else above if comments or re.search(rf"\b{name}\b", above) else ""
    return found


def _headed(name: str, schema: Schema) -> Schema:
    return {
        "$schema": DRAFT,
        "$id": f"urn:accelbench:{name}:{SCHEMA_VERSION}",
        "title": f"accelbench {name}, schema {SCHEMA_VERSION}",
        **schema,
    }


def _object(properties: dict[str, Schema], required: list[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _of(hint: Any, known: dict[str, Schema]) -> Schema:
    """The schema of a type; those of classes get into `known`."""
    kind, args = get_origin(hint) or hint, get_args(hint)
    if kind is Annotated:
        if isinstance(args[1], Range):
            return {"type": NAMES[args[0]], "minimum": args[1].low, "maximum": args[1].high}
        if isinstance(args[1], re.Pattern):
            return {"type": "string", "pattern": f"^({args[1].pattern})$"}
        return _of(args[1], known)
    if kind in (Union, UnionType):
        return {"anyOf": [{"type": "null"}, *(_of(arg, known) for arg in args if arg is not NoneType)]}
    if dataclasses.is_dataclass(kind) or is_typeddict(kind):
        if kind.__name__ not in known:
            known[kind.__name__] = {}  # of a type that holds itself
            known[kind.__name__] = _of_class(kind, known)
        return {"$ref": f"#/definitions/{kind.__name__}"}
    if kind in (list, tuple):
        length = {"minItems": len(args), "maxItems": len(args)} if kind is tuple and Ellipsis not in args else {}
        return {"type": "array", "items": _of(args[0], known), **length}
    if args:
        return {"type": "object", "additionalProperties": _of(args[1], known)}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    return {} if kind is Any else {"type": NAMES[kind]}


def _of_class(cls: Any, known: dict[str, Schema]) -> Schema:
    said = meanings(cls)
    properties = {
        name: _of(hint, known) | ({"description": said[name]} if said.get(name) else {})
        for name, hint in get_type_hints(cls, include_extras=True).items()
    }
    if is_typeddict(cls):
        return {"type": "object", "properties": properties}
    missing = dataclasses.MISSING
    needed = [each.name for each in dataclasses.fields(cls) if each.default is missing is each.default_factory]
    return {**_object(properties, needed), "description": inspect.getdoc(cls) or ""}
