"""What `accelbench doctor` shows: what this machine has, which cells would be skipped on it, and why."""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from yaml import YAMLError

from accelbench import lock
from accelbench.data.manifest import read_manifest
from accelbench.devices.base import DeviceReport
from accelbench.devices.registry import look
from accelbench.errors import UserError
from accelbench.grid import fingerprint, support
from accelbench.isolation.hosts import Hosts
from accelbench.presentation import significant
from accelbench.project import MANIFEST, PARAMS, Workplace
from accelbench.schema.ceilings import TRUE_PRECISIONS, read_ceilings
from accelbench.schema.cell import Cell, KerasSettings
from accelbench.schema.text import clean, one_line
from accelbench.schema.vocab import NOT_QUANTIZED, Device, Engine, Mode, Precision, Protocol
from accelbench.schema.workload import DataSpec, ModelSpec
from accelbench.settings import params
from accelbench.sweep import tensorflow_gpus
from accelbench.sweep.prober import PROBING_ENGINE, Prober

GB = 1e9  # bytes


@dataclass(frozen=True, kw_only=True)
class Support:
    """Whether one kind of cell would run here: `reason` says why not, None if it would run."""

    device: Device
    precision: Precision
    mode: Mode
    model: str
    reason: str | None


def show(place: Workplace, console: Console | None = None, *, probe: bool = False) -> None:
    """Prints what `examine` finds; as plain text if the output is not a terminal.

    Args:
        place: whose configuration, data sets and ceilings are shown.
        console: where to print.
        probe: whether to measure the ceilings of each device first.

    Raises:
        UserError: another measurement is under way, or a file in conf/model is not readable.
    """
    console = console or Console()
    if probe:
        measure_ceilings(place, console)
    console.print(examine(place))


def measure_ceilings(place: Workplace, console: Console) -> None:
    """Probes every present device, and keeps the results."""
    say = functools.partial(console.print, markup=False)
    with lock.hold_measuring(say), Hosts() as hosts:
        prober = Prober(hosts, place.cache, fingerprint.fingerprint(PROBING_ENGINE), say)
        for device in Device:
            if look(device).present:
                prober.probe(_cell(device, Precision.fp32, Mode.infer, ModelSpec(name="mlp")), TRUE_PRECISIONS)


def examine(place: Workplace) -> RenderableType:
    """Devices, engines, versions, precisions, ceilings, data sets and settings, for rich to print.

    Data sets that aren't prepared and a params.yaml that isn't readable are shown as such, not raised.

    Args:
        place: whose configuration, data sets and ceilings are shown.

    Raises:
        UserError: a file in conf/model is not readable.
    """
    reports = [look(device) for device in Device]
    verdicts = list(judge([report for report in reports if report.present], _models(place.conf)))
    return Group(
        *_section("Devices", _devices(reports, tensorflow_gpus.look())),
        *_section("Engines", _engines()),
        *_section("Versions", _versions()),
        *_section("Precisions that run here", _matrix(verdicts)),
        *_section("At most, as probed (accelbench doctor --probe)", _ceilings(place)),
        *_section("Skipped here", _skipped(verdicts)),
        *_section("Data sets", _data_sets(place)),
        *_section("Settings", _settings(place)),
    )


def judge(reports: Iterable[DeviceReport], models: Sequence[ModelSpec]) -> Iterator[Support]:
    """Yields the support of every combination of the reports' devices, precisions, modes and models."""
    for report in reports:
        for precision in NOT_QUANTIZED:
            for mode in Mode:
                for model in models:
                    reason = support.why_not(_cell(report.device, precision, mode, model), report)
                    yield Support(device=report.device, precision=precision, mode=mode, model=model.name, reason=reason)


def _cell(device: Device, precision: Precision, mode: Mode, model: ModelSpec) -> Cell:
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


def _models(conf: Path) -> list[ModelSpec]:
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


def _section(title: str, body: RenderableType) -> tuple[RenderableType, ...]:
    return Text(title, style="bold"), body, Text()


def _grid(*columns: str) -> Table:
    """A table that is readable as plain text: no frame, and the first column is never wrapped."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(columns), header_style="dim")
    for index, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=index == 0)
    return table


def _devices(reports: Iterable[DeviceReport], tensorflow: tensorflow_gpus.Answer) -> Table:
    """A row for each device, and one for the GPU as Keras on TensorFlow sees it."""
    table = _grid("", "", "")
    for report in reports:
        if report.present:
            table.add_row(report.device, _yes_or_no(True), Text(_facts(report)))
        else:
            table.add_row(report.device, _yes_or_no(False), Text(report.reason or ""))
    table.add_row("gpu in keras", _yes_or_no(tensorflow.found), Text(tensorflow.text))
    return table


def _engines() -> Table:
    """A row for each engine: in which precisions it infers on this CPU, or why not at all."""
    table = _grid("", "", "")
    plain = _cell(Device.cpu, Precision.fp32, Mode.infer, ModelSpec(name="mlp"))
    for engine in Engine:
        cell = replace(plain, engine=engine, keras=KerasSettings() if engine == Engine.keras else None)
        reason = support.why_not(cell, look(Device.cpu))
        found = reason or ", ".join(word for word in Precision if _runs(replace(cell, precision=word)))
        table.add_row(engine, _yes_or_no(reason is None), Text(found))
    return table


def _runs(cell: Cell) -> bool:
    return support.why_not(cell, look(cell.device)) is None


def _yes_or_no(yes: bool) -> Text:
    return Text("yes", style="green") if yes else Text("no", style="yellow")


def _facts(report: DeviceReport) -> str:
    count = f"{report.count} x " if report.count > 1 else ""
    memory = [f"memory {report.memory_bytes / GB:.1f} GB"] if report.memory_bytes is not None else []
    details = [f"{key.replace('_', ' ')} {value}" for key, value in report.details.items()]
    return ", ".join([count + report.name, *memory, *details])


def _versions() -> Text:
    found = fingerprint.fingerprint()
    versions: Mapping[str, str] = {"python": found["machine"]["python"], **found["versions"]}
    return Text(", ".join(f"{name} {version}" for name, version in versions.items()))


def _matrix(verdicts: Sequence[Support]) -> RenderableType:
    """A row per precision, a column per device and mode: yes, no, or how many of the models run."""
    columns = list(dict.fromkeys((verdict.device, verdict.mode) for verdict in verdicts))
    table = _grid("precision", *(f"{device} {mode}" for device, mode in columns))
    for precision in NOT_QUANTIZED:
        cells = []
        for column in columns:
            runs = [v.reason is None for v in verdicts if (v.device, v.mode) == column and v.precision == precision]
            cells.append(_share(sum(runs), len(runs)))
        table.add_row(precision, *cells)
    return table if columns else Text("conf/model holds no model")


def _share(num_running: int, num_all: int) -> Text:
    if num_running == num_all:
        return Text("yes", style="green")
    return Text(f"{num_running} of {num_all} models", style="yellow") if num_running else Text("no", style="yellow")


def _ceilings(place: Workplace) -> RenderableType:
    """A row for each device that was probed, with its peak rates."""
    known = read_ceilings(place.cache, fingerprint.fingerprint(PROBING_ENGINE))
    if not known:
        return Text("not probed yet: the first cell on each device does it")
    table = Table(box=None, pad_edge=False)
    precisions = [word for word in Precision if any(word in ceilings.flops_per_s for ceilings in known.values())]
    # A CPU copies nothing: the two columns would be empty, and the table too wide.
    copies_too = any(ceilings.host_to_device_bytes_per_s for ceilings in known.values())
    headings = [
        "device",
        *precisions,
        "memory",
        "launch",
        *(("from host", "to host") if copies_too else ()),
    ]
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "device" else "right")
    for device, ceilings in known.items():
        rates = [ceilings.flops_per_s.get(word) for word in precisions]
        copies = [ceilings.host_to_device_bytes_per_s, ceilings.device_to_host_bytes_per_s] if copies_too else []
        numbers = [rate / GB if rate else None for rate in [*rates, ceilings.memory_bytes_per_s]]
        numbers += [ceilings.launch_s * 1e6, *(rate / GB if rate else None for rate in copies)]
        table.add_row(device, *map(significant, numbers))
    units = Text("GFLOP/s (int8: GOP/s); memory and copies in GB/s; a launch in microseconds", "dim")
    return Group(table, units)


def _skipped(verdicts: Sequence[Support]) -> RenderableType:
    """The skipped kinds of cells, each with its reason; kinds with the same reason share one entry."""
    kinds = dict.fromkeys((v.device, v.precision, v.reason) for v in verdicts if v.reason is not None)
    lines: list[RenderableType] = []
    for device, precision, reason in kinds:
        hit = [v for v in verdicts if (v.device, v.precision, v.reason) == (device, precision, reason)]
        lines.append(Text(f"{device} {precision}{_scope(hit, verdicts)}"))
        lines.append(Padding(Text(reason, style="dim"), (0, 0, 0, 4)))
    return Group(*lines) if lines else Text("nothing, on the devices that are there")


def _scope(hit: Sequence[Support], verdicts: Sequence[Support]) -> str:
    """The modes and models of `hit`; empty if these are all modes and models."""
    modes, models = dict.fromkeys(v.mode for v in hit), dict.fromkeys(v.model for v in hit)
    which_mode = f", {' and '.join(modes)}" if len(modes) < len(Mode) else ""
    which_model = f": {', '.join(models)}" if len(models) < len({v.model for v in verdicts}) else ""
    return which_mode + which_model


def _data_sets(place: Workplace) -> RenderableType:
    try:
        if place.project is None:  # those that were prepared, since a run prepares any other
            names = sorted(path.parent.name for path in place.data.glob(f"*/{MANIFEST}"))
        else:
            names = [str(name) for name in params.load(place.project).get("data") or {}]
    except UserError:
        return Text(f"unknown: {PARAMS} is not readable")
    table = _grid("", "", "")
    for name in names:
        try:
            data = read_manifest(place.data / name)
        except UserError as error:
            table.add_row(Text(clean(name)), Text("no", style="yellow"), Text(_relative(error, place.root)))
        else:
            state = Text("stand-in", style="yellow") if data.stand_in else Text("yes", style="green")
            table.add_row(Text(clean(name)), state, Text(data.source))
    return table if names else Text(f"{PARAMS} names none" if place.project else f"none yet in {place.data}")


def _settings(place: Workplace) -> RenderableType:
    if place.project is None:
        return Text(f"no {PARAMS} with suites here or above: `accelbench init` makes a project")
    try:
        settings = params.load(place.project)
    except UserError as error:
        return Text(_relative(error, place.root), style="red")
    suites = ", ".join(map(str, settings.get("suites") or {})) or "none"
    return Text(f"{PARAMS}: profile {settings.get('profile')}, suites: {suites}")


def _relative(error: UserError, root: Path) -> str:
    """The message on one line, with paths relative to the project's folder."""
    return one_line(str(error).replace(f"{root}/", ""))
