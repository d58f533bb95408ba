"""Cells of older schemas, upgraded to the present one.

Schema 4 added the options and the target precision of a window; schema 5 added Keras and several devices. Both only
added fields, so that an older record needs no other change: the default of a new field says "unknown" or "off",
except for the settings in `upgrade_cell`.
"""

from collections.abc import Mapping
from typing import Any

SCHEMA_VERSION = 5
OLDEST = 3
READABLE = f"schema {OLDEST} to {SCHEMA_VERSION}"


def is_readable(version: object) -> bool:
    """Whether this release reads records and plans of the schema `version`."""
    return version in range(OLDEST, SCHEMA_VERSION + 1)


def upgrade_cell(cell: Mapping[str, Any], version: int) -> Mapping[str, Any]:
    """The JSON of a cell of schema `version`, plus the new settings whose default is not what the cell ran with."""
    if version == SCHEMA_VERSION:
        return cell
    # Before these settings existed, no step was broken down, and blocks were measured for `measure_s` however
    # precise they were.
    return {"breakdown_s": 0.0, **cell, "window": {"width": 1.0, **cell["window"]}}
