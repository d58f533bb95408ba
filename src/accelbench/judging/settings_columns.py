"""The columns of a row that say what was asked for, and how it ended."""

from pathlib import PurePath

from accelbench.schema.cell import Cell, value_text
from accelbench.schema.record import Record, Row, node_of
from accelbench.schema.vocab import RANDOM, XLA, Engine, Library, Pipeline, Protocol


def settings_of(record: Record) -> Row:
    """The cell's settings by the names of columns, and the record's status and identity."""
    cell, data = record.cell, record.data
    return {
        "suite": cell.suite,
        "mode": cell.mode.value,
        "engine": cell.engine.value,
        "backend": cell.keras.backend.value if cell.keras else None,
        "jit_compile": cell.keras.jit_compile if cell.keras else None,
        "steps_per_execution": cell.keras.steps_per_execution if cell.keras else None,
        "xla_processes": cell.xla_processes if cell.device in XLA and cell.engine == Engine.lightning else None,
        "model": cell.model.name,
        "library": cell.model.library.value,
        "weights": PurePath(cell.model.weights).name,
        "arguments": ", ".join(f"{name}={value_text(value)}" for name, value in cell.arguments) or None,
        "accumulate_grad_batches": cell.trainer.accumulate_grad_batches if cell.trainer else None,
        "gradient_clip_val": cell.trainer.gradient_clip_val if cell.trainer else None,
        "data": cell.data.name,
        "pipeline": cell.data.pipeline.value,
        "num_workers": cell.data.num_workers if cell.data.pipeline == Pipeline.jpeg else None,
        "augment": cell.data.augment.value,
        "input_shape": "x".join(map(str, cell.model.input_shape)) if _has_random_images(cell) else None,
        "device": cell.device.value,
        "precision": cell.precision.value,
        **vars(cell.options),
        "allocator": cell.options.allocator.value,
        "asked_threads": cell.threads,
        "devices": cell.devices,
        "scaling": cell.scaling.value if cell.devices > 1 else None,
        "batch_size": cell.batch_size,
        "protocol": cell.protocol.value,
        "epochs": cell.epochs,
        "steps": cell.steps if cell.protocol == Protocol.steps else None,
        "seed": cell.seed,
        "repeat": cell.repeat,
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


def _has_random_images(cell: Cell) -> bool:
    return cell.data.name == RANDOM and not cell.model.batch and cell.model.library != Library.transformers
