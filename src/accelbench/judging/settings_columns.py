"""The columns of a row that say what was asked for, and how it ended."""

from pathlib import PurePath
from typing import Any

from accelbench.schema.cell import Cell, value_text
from accelbench.schema.record import Record, Row, node_of
from accelbench.schema.setting import declared
from accelbench.schema.vocab import RANDOM, XLA, Engine, Library, Pipeline, Protocol

# The settings that have a column of their own, as their declarations say.
DECLARED = tuple(each for each in declared(Cell) if each.said.column)


def settings_of(record: Record) -> Row:
    """The cell's settings by the names of columns, and the record's status and identity."""
    cell, data = record.cell, record.data
    return {
        "suite": cell.suite,
        "mode": cell.mode.value,
        "engine": cell.engine.value,
        "model": cell.model.name,
        "arguments": ", ".join(f"{name}={value_text(value)}" for name, value in cell.arguments) or None,
        "data": cell.data.name,
        "device": cell.device.value,
        **{each.column: _shown(each.value(cell)) for each in DECLARED},
        **_where_they_count(cell),
        "status": record.status.value,
        "reason": record.reason,
        "cell_id": record.cell_id or cell.id,
        "identity": record.identity[:8],
        "started_at": record.started_at,
        "wall_s": record.wall_s,
        "node": node_of(record.environment),
        "data_source": data.source if data else None,
        "stand_in": data.stand_in if data else None,
    }


def _shown(value: Any) -> Any:
    return getattr(value, "value", value)  # an enumeration's word


def _where_they_count(cell: Cell) -> Row:
    """The columns that are empty for some cells, or short."""
    is_xla = cell.device in XLA and cell.engine == Engine.lightning
    library = cell.model.library
    has_random_images = cell.data.name == RANDOM and not cell.model.batch and library != Library.transformers
    return {
        "xla_processes": cell.xla_processes if is_xla else None,
        "weights": PurePath(cell.model.weights).name,
        "num_workers": cell.data.num_workers if cell.data.pipeline == Pipeline.jpeg else None,
        "input_shape": "x".join(map(str, cell.model.input_shape)) if has_random_images else None,
        "scaling": cell.scaling.value if cell.devices > 1 else None,
        "steps": cell.steps if cell.protocol == Protocol.steps else None,
    }
