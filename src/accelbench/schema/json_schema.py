"""Makes the JSON Schema (draft 7) of accelbench's files from the types that read these files.

The description of a setting is its help.
"""

from typing import Any, is_typeddict

import msgspec

from accelbench.schema import cell, measurement, plan_file
from accelbench.schema import record as record_file
from accelbench.schema.measurement import Environment
from accelbench.schema.plan_file import PlanFile
from accelbench.schema.record import SCHEMA_VERSION, Record
from accelbench.schema.setting import HELP

DRAFT = "http://json-schema.org/draft-07/schema#"
REFERENCE = "#/definitions/{name}"
MODULES = (cell, measurement, plan_file, record_file)
NAMED = {name: value for module in MODULES for name, value in vars(module).items()}
CLASSES = {name: value for name, value in NAMED.items() if isinstance(value, type)}
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


def _definitions(*classes: Any) -> dict[str, Schema]:
    """Maps a class's name to its schema, for `classes` and the classes in their fields."""
    _, definitions = msgspec.json.schema_components(classes, ref_template=REFERENCE)
    for name, part in definitions.items():
        if "properties" not in part:
            continue
        part["additionalProperties"] = is_typeddict(CLASSES[name])
        for field in getattr(CLASSES[name], "__dataclass_fields__", {}).values():
            if HELP in field.metadata:
                part["properties"][field.name]["description"] = field.metadata[HELP]
        for field in part["properties"].values():
            for kind in field.get("anyOf", ()):
                if "prefixItems" in kind:  # a word of later drafts
                    kind["items"] = kind.pop("prefixItems")
    return definitions


def _headed(name: str, schema: Schema) -> Schema:
    return {
        "$schema": DRAFT,
        "$id": f"urn:accelbench:{name}:{SCHEMA_VERSION}",
        **schema,
        "title": f"accelbench {name}, schema {SCHEMA_VERSION}",
    }
