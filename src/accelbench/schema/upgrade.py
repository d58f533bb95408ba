"""Files of other releases: cells of older schemas are upgraded, and what can't be read is named.

Schema 4 added the options and the target precision of a window, schema 5 Keras and several devices, schema 6 what a
network returns, schema 7 the user's own batches, losses and LightningModules, schema 8 what was observed of each
promise. All only added fields, so that an older record needs no other change: the default of a new field says
"unknown" or "off", except for the settings in `upgrade_cell`.
"""

import contextlib
import reprlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from accelbench.errors import RefusedError, UserError

SCHEMA_VERSION = 8
OLDEST = 3
# What reading a file raises that holds something else.
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, UserError)


class OtherSchemaError(UserError):
    """A record or plan of a schema that this release cannot read."""

    def __init__(self, version: object, message: str | None = None) -> None:
        found = reprlib.repr(version)
        super().__init__(message or f"schema {found}; this accelbench reads schema {OLDEST} to {SCHEMA_VERSION}")
        self.version = version


def check_readable(version: object) -> None:
    """Raises an OtherSchemaError if this release does not read records and plans of the schema `version`."""
    if version not in range(OLDEST, SCHEMA_VERSION + 1):
        raise OtherSchemaError(version)


@contextlib.contextmanager
def explained(path: Path, what: str, advice: str = "") -> Iterator[None]:
    """Raises a UserError that names the file for whatever the block raises as it reads it.

    A RefusedError stays: it says nothing about the contents of the file.
    """
    try:
        yield
    except RefusedError:
        raise
    except UNREADABLE as error:
        message = f"{path}: not a readable {what} ({error.strerror if isinstance(error, OSError) else error}){advice}"
        if isinstance(error, OtherSchemaError):
            raise OtherSchemaError(error.version, message) from error
        raise UserError(message) from error


def upgrade_cell(values: Mapping[str, Any], version: int) -> Mapping[str, Any]:
    """The JSON of a cell of the schema `version`, with the settings whose present default it did not run with."""
    if version == SCHEMA_VERSION:
        return values
    # Before these settings existed, no step was broken down, and blocks were measured for `measure_s` however
    # precise they were.
    return {"breakdown_s": 0.0, **values, "window": {"width": 1.0, **values["window"]}}
