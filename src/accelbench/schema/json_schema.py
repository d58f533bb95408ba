"""Makes the JSON Schema (draft 7) of accelbench's files from the types that read these files.

The description of a field is the comment beside or above its declaration. The description of a setting is its help.
"""

import inspect
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, is_typeddict

import msgspec

from accelbench.schema import cell, measurement, plan_file, workload
from accelbench.schema import record as record_file
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Environment
from accelbench.schema.plan_file import PlanFile
from accelbench.schema.record import SCHEMA_VERSION, Record
from accelbench.schema.setting import KEY, declared

DRAFT = "http://json-schema.org/draft-07/schema#"
REFERENCE = "#/definitions/{name}"
MODULES = (cell, measurement, plan_file, record_file, workload)
NAMED = {name: value for module in MODULES for name, value in vars(module).items()}
CLASSES = {name: value for name, value in NAMED.items() if isinstance(value, type)}
COMMENT, FIELD = re.compile(r"    # (.*)"), re.compile(r"    (\w+): [^#]*(?:# (.*))?")
Schema = dict[str, Any]


def record() -> Schema:
    """The schema of a record's file. A record has all fields. If a value is unknown, it is null."""
    definitions = _definitions(Record, Environment)
    whole = definitions.pop("Record")
    whole["properties"]["environment"]["$ref"] = REFERENCE.format(name="Environment")
    cell_id = {"type": "string", "pattern": "^[0-9a-f]{12}$", "description": "digest of the cell's settings"}
    whole["properties"]["cell_id"] = cell_id
    whole["required"] = sorted(whole["properties"])
    return _headed("record", {**whole, "definitions": definitions})


def plan() -> Schema:
    """The schema of plan.json."""
    definitions = _definitions(PlanFile)
    whole = definitions.pop("PlanFile")
    entry = definitions["WantedCell"]
    whole["properties"]["schema_version"] = {"const": SCHEMA_VERSION}
    entry["properties"] |= {"cell_id": {"type": "string"}, "record": entry["properties"].pop("record_name")}
    entry["required"] = ["cell", "cell_id", "label", "record"]
    return _headed("plan", {**whole, "definitions": definitions})


def processes(columns: Sequence[str]) -> Schema:
    """Returns the schema of the entry `processes` in the output of `export --format json`. It has processes.csv's rows.

    A row has the columns `columns`. If a value is unknown, it is null. A later release may have more columns.
    """
    kinds = {setting.column: setting.kind for setting in declared(Cell) if setting.texts.column}
    types = [kinds.get(name, float | str | bool) | None for name in columns]
    schemas, definitions = msgspec.json.schema_components(types, ref_template=REFERENCE)
    row = {"type": "object", "properties": dict(zip(columns, schemas, strict=True)), "required": [*columns]}
    return _headed("processes", {"type": "array", "items": row, "definitions": definitions})


def _definitions(*classes: Any) -> dict[str, Schema]:
    """Maps a class's name to its schema, for `classes` and the classes in their fields. Fields have descriptions."""
    _, definitions = msgspec.json.schema_components(classes, ref_template=REFERENCE)
    for name, part in definitions.items():
        if "properties" in part:
            part["additionalProperties"] = is_typeddict(CLASSES[name])
            texts = meanings(CLASSES[name])
            for field_name, field in part["properties"].items():
                if texts.get(field_name):
                    field["description"] = texts[field_name]
                for kind in field.get("anyOf", ()):
                    if "prefixItems" in kind:  # a word of later drafts
                        kind["items"] = kind.pop("prefixItems")
    return definitions


@cache
def meanings(cls: Any) -> dict[str, str]:
    """Maps a field to its description: the help of a setting, or the comment beside or above the field."""
    texts: dict[str, str] = {}
    for base in reversed(getattr(cls, "__mro__", ())):
        if vars(base).get("__annotations__"):
            texts |= _commented(base)
    for field in getattr(cls, "__dataclass_fields__", {}).values():
        if KEY in field.metadata:
            texts[field.name] = field.metadata[KEY].help
    return texts


def _commented(cls: Any) -> dict[str, str]:
    texts: dict[str, str] = {}
    above: list[str] = []
    for line in inspect.getsource(cls).splitlines():
        if comment := COMMENT.fullmatch(line):
            above.append(comment[1])
            continue
        field = FIELD.fullmatch(line)
        if field and field[1] in cls.__annotations__:
            texts[field[1]] = field[2] or " ".join(above)
        above = []
    return texts


def _headed(name: str, schema: Schema) -> Schema:
    return {
        "$schema": DRAFT,
        "$id": f"urn:accelbench:{name}:{SCHEMA_VERSION}",
        **schema,
        "title": f"accelbench {name}, schema {SCHEMA_VERSION}",
    }
