"""Which kinds of cells would run on this machine, and why the others would not."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from accelbench.devices.registry import DeviceReport, look
from accelbench.errors import UserError
from accelbench.grid import support
from accelbench.schema.cell import Cell, KerasSettings
from accelbench.schema.vocab import NOT_QUANTIZED, Device, Engine, Mode, Precision, Protocol
from accelbench.schema.workload import DataSpec, ModelSpec


@dataclass(frozen=True, kw_only=True)
class Support:
    """Whether one kind of cell would run here: `reason` says why not, None if it would run."""

    device: Device
    precision: Precision
    mode: Mode
    model: str
    reason: str | None


def judge(reports: Iterable[DeviceReport], models: Sequence[ModelSpec]) -> Iterator[Support]:
    """Yields the support of every combination of the reports' devices, precisions, modes and models."""
    for report in reports:
        for precision in NOT_QUANTIZED:
            for mode in Mode:
                for model in models:
                    reason = support.why_not(cell_of(report.device, precision, mode, model), report)
                    yield Support(device=report.device, precision=precision, mode=mode, model=model.name, reason=reason)


def cell_of(device: Device, precision: Precision, mode: Mode, model: ModelSpec) -> Cell:
    """A cell of this kind; its other settings do not decide whether it is supported."""
    return Cell(
        suite="doctor",
        engine=Engine.lightning,
        device=device,
        model=model,
        data=DataSpec(name=""),
        mode=mode,
        precision=precision,
        batch_size=1,
        protocol=Protocol.window,
        epochs=1,
    )


def plain(engine: Engine) -> Cell:
    """A small cell of this engine on the CPU."""
    cell = cell_of(Device.cpu, Precision.fp32, Mode.infer, ModelSpec(name="mlp"))
    return replace(cell, engine=engine, keras=KerasSettings() if engine == Engine.keras else None)


def runs(cell: Cell) -> bool:
    """Whether the cell would run on this machine."""
    return support.why_not(cell, look(cell.device)) is None


def own_models(conf: Path) -> list[ModelSpec]:
    """Accelbench's own networks in conf/model, with their optimisers.

    Raises:
        UserError: a file there is not readable.
    """
    models = []
    for path in sorted(conf.glob("model/*.yaml")):
        try:
            config: Any = OmegaConf.load(path)
            if "library" not in config.get("model", ()):  # files with a library stand for any network of it
                models.append(
                    ModelSpec(
                        name=config["name"],
                        network=config.get("network"),
                        optimizer=config.get("optimizer", "adam"),
                    )
                )
        except (OSError, YAMLError, OmegaConfBaseException, AttributeError, TypeError) as error:
            raise UserError(f"{path.relative_to(conf.parent)}: no readable model, with a name ({error})") from error
    return models
