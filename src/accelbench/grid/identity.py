"""The identity of a cell's record: the digest of everything that its numbers depend on."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accelbench.devices import allocators
from accelbench.errors import UserError
from accelbench.grid.fingerprint import source_digest
from accelbench.schema.cell import Cell
from accelbench.schema.conditions import Data
from accelbench.schema.serialize import digest, open_regular


def identity(cell: Cell, data: Data, fingerprint: Mapping[str, Any]) -> str:
    """The sha256 of the cell's settings, data set, allocator, the fingerprint and the user's own code and weights.

    Args:
        cell: the cell.
        data: its data set.
        fingerprint: of the cell's engine (`fingerprint.fingerprint`).

    Raises:
        UserError: the source of the user's own code can't be found, or the weights can't be read.
    """
    parts = {"settings": cell.settings(), "data": data.digest, "environment": fingerprint}
    if code := {flag: source_digest(flag, path) for flag, path in cell.own_code.items()}:
        parts["code"] = code
    if cell.model.weights_file is not None:
        parts["weights"] = _checksum(cell.model.weights_file)
    if (library := allocators.library(cell.options.allocator)) is not None:
        parts["allocator"] = allocators.checksum(library)
    return digest(parts)


def _checksum(path: str) -> str:
    """The sha256 of the weights' file."""
    try:
        with open_regular(Path(path)) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"model.weights={path}: not readable ({error.strerror})") from error
