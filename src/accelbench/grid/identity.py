"""The identity of a cell's record: the digest of everything that its numbers depend on."""

from typing import Any

from accelbench.grid.usercode import source_digest
from accelbench.schema.cell import Cell
from accelbench.schema.conditions import Data
from accelbench.schema.serialize import digest
from accelbench.schema.vocab import Library


def identity(cell: Cell, data: Data, fingerprint: dict[str, Any]) -> str:
    """The digest of everything that the cell's numbers depend on.

    Raises:
        UserError: the user's own network is nowhere to be found.
    """
    parts = {"settings": cell.settings(), "data": data.digest, "environment": fingerprint}
    if cell.model.library == Library.custom:
        parts["network"] = source_digest(cell.model.definition)
    return digest(parts)
