"""What this machine and its project have, and which kinds of cells would run here."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.text import Text
from yaml import YAMLError

from accelbench.data.manifest import read_manifest
from accelbench.devices.registry import DeviceReport, look
from accelbench.doctor import tensorflow_gpus
from accelbench.errors import UserError
from accelbench.grid import support
from accelbench.grid.fingerprint import fingerprint
from accelbench.project import MANIFEST, PARAMS, Workplace
from accelbench.schema.ceilings import Ceilings, read_ceilings
from accelbench.schema.cell import Cell, KerasSettings
from accelbench.schema.conditions import Data
from accelbench.schema.text import one_line
from accelbench.schema.vocab import NOT_QUANTIZED, Device, Engine, Mode, Precision, Protocol
from accelbench.schema.workload import DataSpec, ModelSpec
from accelbench.settings import params
from accelbench.sweep.prober import PROBING_ENGINE

GB = 1e9  # bytes
TOO_LOW = "too low, since probed beside other load"
NOT_PROBED = "not probed yet: the first cell on each device does it"


@dataclass(frozen=True)
class Kind:
    """A kind of cell: `reason` says why it would not run here, None if it would."""

    device: Device
    precision: Precision
    mode: Mode
    model: str
    reason: str | None


@dataclass(frozen=True)
class Facts:
    """What both views of `doctor` show."""

    place: Workplace
    reports: list[DeviceReport]
    kinds: list[Kind]  # on the devices that are there, of accelbench's own networks
    tensorflow: tensorflow_gpus.KerasGpus
    ceilings: Mapping[str, Ceilings]

    @classmethod
    def of(cls, place: Workplace) -> "Facts":
        """Looks at this machine and at what is in `place`.

        Raises:
            UserError: a file in conf/model is not readable.
        """
        reports = [look(device) for device in Device]
        kinds = list(kinds_on([report for report in reports if report.present], own_models(place.conf)))
        known = read_ceilings(place.cache, fingerprint(PROBING_ENGINE))
        return cls(place, reports, kinds, tensorflow_gpus.look(), known)


def described(report: DeviceReport, but: Collection[str] = ()) -> str:
    """A device's name, memory and details, without the details named in `but`."""
    count = f"{report.count} x " if report.count > 1 else ""
    memory = [f"memory {report.memory_bytes / GB:.1f} GB"] if report.memory_bytes is not None else []
    details = [f"{key.replace('_', ' ')} {value}" for key, value in report.details.items() if key not in but]
    return ", ".join([count + report.name, *memory, *details])


def kinds_on(reports: Iterable[DeviceReport], models: Sequence[ModelSpec]) -> Iterator[Kind]:
    """Every combination of the reports' devices, precisions, modes and models."""
    for report in reports:
        for precision in NOT_QUANTIZED:
            for mode in Mode:
                for model in models:
                    reason = support.why_not(cell_of(report.device, precision, mode, model), report)
                    yield Kind(report.device, precision, mode, model.name, reason)


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


def plain(engine: Engine, precision: Precision = Precision.fp32) -> Cell:
    """A small cell of this engine on the CPU."""
    cell = cell_of(Device.cpu, precision, Mode.infer, ModelSpec(name="mlp"))
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
                network, optimizer = config.get("network"), config.get("optimizer", "adam")
                models.append(ModelSpec(name=config["name"], network=network, optimizer=optimizer))
        except (OSError, YAMLError, OmegaConfBaseException, AttributeError, TypeError) as error:
            raise UserError(f"{path.relative_to(conf.parent)}: no readable model, with a name ({error})") from error
    return models


def settings_of(place: Workplace, *, briefly: bool = False) -> Text:
    """The project's profile and suites, which are counted if `briefly`; or why there are none."""
    if place.project is None:
        return Text(f"no {PARAMS} with suites here or above: `accelbench init` makes a project")
    try:
        settings = params.load(place.project)
    except UserError as error:
        return Text(_relative(error, place.root), style="red")
    names = list(map(str, settings.get("suites") or {}))
    suites = f"{len(names)} suites" if briefly else f"suites: {', '.join(names) or 'none'}"
    return Text(f"{PARAMS}: profile {settings.get('profile')}, {suites}")


def data_sets(place: Workplace) -> dict[str, Data | str]:
    """Data set -> what was prepared, or why it is not there. Of params.yaml; outside of a project, of all prepared.

    Raises:
        UserError: params.yaml is not readable.
    """
    if place.project is None:  # a run prepares any other
        names = sorted(path.parent.name for path in place.data.glob(f"*/{MANIFEST}"))
    else:
        names = [str(name) for name in params.load(place.project).get("data") or {}]
    found: dict[str, Data | str] = {}
    for name in names:
        try:
            found[name] = read_manifest(place.data / name)
        except UserError as error:
            found[name] = _relative(error, place.root)
    return found


def _relative(error: UserError, root: Path) -> str:
    """The message on one line, with paths relative to the project's folder."""
    return one_line(str(error).replace(f"{root}/", ""))
