"""The identity of a cell's record: the digest of everything that its numbers depend on."""

from collections.abc import Mapping
from typing import Any

from accelbench.grid.fingerprint import source_digest
from accelbench.schema.cell import Cell
from accelbench.schema.conditions import Data
from accelbench.schema.serialize import digest


def identity(cell: Cell, data: Data, fingerprint: Mapping[str, Any]) -> str:
    """The sha256 of the cell's settings, its data set, the fingerprint and the source of the user's own code.

    Args:
        cell: the cell.
        data: its data set.
        fingerprint: of the cell's engine (`fingerprint.fingerprint`).

    Raises:
        UserError: the source of the user's own code can't be found.
    """
    parts = {"settings": cell.settings(), "data": data.digest, "environment": fingerprint}
    if code := {flag: source_digest(flag, path) for flag, path in cell.own_code.items()}:
        parts["code"] = code
    return digest(parts)
