"""`accelbench doctor`: prints what this machine and its project have and can do, after probing it if asked."""

import functools
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pynvml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text
from yaml import YAMLError

from accelbench import lock
from accelbench.data.manifest import read_manifest
from accelbench.devices import packages
from accelbench.devices.gpu import visible_gpus
from accelbench.devices.registry import DeviceReport, look
from accelbench.errors import UserError
from accelbench.grid import support
from accelbench.grid.fingerprint import fingerprint
from accelbench.isolation.hosts import Hosts
from accelbench.presentation import significant
from accelbench.project import MANIFEST, PARAMS, Workplace
from accelbench.schema.ceilings import TRUE_PRECISIONS, Ceilings, read_ceilings
from accelbench.schema.cell import KerasSettings
from accelbench.schema.measurement import Data
from accelbench.schema.text import clean, one_line
from accelbench.schema.vocab import NOT_QUANTIZED, Device, Engine, Mode, Precision
from accelbench.schema.workload import ModelSpec
from accelbench.settings import params
from accelbench.settings.config import SweepOptions
from accelbench.sweep.early import plain_cell
from accelbench.sweep.prober import PROBING_ENGINE, Prober, Quiet, is_allowed

GB = 1e9  # bytes
# TensorFlow's name for the model of each GPU that it can compute on, on one line.
GPUS = """
import json, tensorflow as tf
details = tf.config.experimental.get_device_details
print(json.dumps([details(gpu).get("device_name", gpu.name) for gpu in tf.config.list_physical_devices("GPU")]))
"""
ASK = [sys.executable, "-c", GPUS]  # in a process of its own: this one imports no framework
TIMEOUT_S = 120.0
NO_LIBRARIES = (
    "TensorFlow finds none of {num} and would take the CPU: it needs CUDA libraries of its own, in an environment "
    "without torch (make setup-keras-gpu)"
)
LEFT_OUT = ("physical_cores", "logical_cores", "instruction_sets")  # details of a device that the summary leaves out
FOOT = "* not with every network or engine; for details: accelbench doctor --all"
TOO_LOW = "too low, since probed beside other load"
NOT_PROBED = "not probed yet: the first cell on each device does it"
UNREADABLE = f"unknown: {PARAMS} is not readable"


class Kind(NamedTuple):
    """A kind of cell: `reason` says why it would not run here, None if it would."""

    device: Device
    precision: Precision
    mode: Mode
    model: str
    reason: str | None


def show(place: Workplace, console: Console | None = None, *, probe: bool = False, whole: bool = False) -> None:
    """Prints what this machine has and can do; as plain text if the output is not a terminal.

    Args:
        probe: whether to measure the ceilings of each device first.
        whole: whether to print all of it, rather than a summary of at most 12 lines.

    Raises UserError: another measurement is under way, or a file in conf/model is not readable.
    """
    console = console or Console()
    if probe:
        say = functools.partial(console.print, markup=False)
        with lock.hold_measuring(say), Hosts() as hosts:
            quiet = Quiet(0.0 if is_allowed() else SweepOptions.quiet_s, say)
            prober = Prober(hosts, place.cache, fingerprint(PROBING_ENGINE), say, quiet=quiet)
            for device in Device:
                if look(device).present:
                    prober.probe(plain_cell(device), TRUE_PRECISIONS)
    reports = [look(device) for device in Device]
    kinds = list(kinds_on([report for report in reports if report.present], _own_models(place.conf)))
    known = read_ceilings(place.cache, fingerprint(PROBING_ENGINE))
    console.print((_whole if whole else _summary)(place, reports, kinds, known))


def kinds_on(reports: Iterable[DeviceReport], models: Sequence[ModelSpec]) -> Iterator[Kind]:
    """Every combination of the reports' devices, precisions, modes and models."""
    for report in reports:
        for precision in NOT_QUANTIZED:
            for mode in Mode:
                for model in models:
                    cell = replace(plain_cell(report.device, precision), mode=mode, model=model)
                    yield Kind(report.device, precision, mode, model.name, support.why_not(cell, report))


def _own_models(conf: Path) -> list[ModelSpec]:
    """Accelbench's own networks in conf/model, with their optimisers."""
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


def _why_not(engine: Engine, precision: Precision = Precision.fp32) -> str | None:
    """Why the engine would not infer in this precision on this machine's CPU; None if it would."""
    keras = KerasSettings() if engine == Engine.keras else None
    return support.why_not(replace(plain_cell(Device.cpu, precision), engine=engine, keras=keras), look(Device.cpu))


def _summary(
    place: Workplace, reports: Sequence[DeviceReport], kinds: Sequence[Kind], known: Mapping[str, Ceilings]
) -> RenderableType:
    """A dozen lines of 80 columns."""
    present = [report.device for report in reports if report.present]
    absent = ", ".join(report.device for report in reports if not report.present)
    head = (
        f"{', '.join(present)} {'run' if len(present) > 1 else 'runs'} here{f'; not here: {absent}' if absent else ''}"
    )
    rows: list[tuple[str, str]] = []
    for report in reports:
        if not report.present:
            rows.append((report.device, report.reason or ""))
        elif report.device != Device.xla_cpu:  # the CPU again
            rows.append((report.device, _described(report, but=LEFT_OUT)))
            if sets := report.details.get("instruction_sets"):
                rows.append(("", str(sets)))
    if Device.gpu in present and not (found := tensorflow_gpus())[0]:
        rows.append(("gpu in keras", found[1]))
    there = [engine for engine in Engine if _why_not(engine) is None]
    missing = ", ".join(engine for engine in Engine if engine not in there)
    rows.append(("engines", ", ".join(there) + (f"; not installed: {missing}" if missing else "")))
    rows += [(f"on {device}", _precisions(kinds, device)) for device in present]
    rows.append(("at most", _peaks(known)))
    sets_found = data_sets(place)
    states = Counter(_state(each) for each in sets_found.values()) if sets_found is not None else {}
    counts = ", ".join(f"{states[word]} {word}" for word in ("ready", "stand-in", "not prepared yet") if word in states)
    rows.append(("data", UNREADABLE if sets_found is None else counts or "none yet"))
    table = _grid("", "")
    for name, text in rows:
        table.add_row(name, Text(text))
    table.add_row("project", _settings(place, briefly=True))
    return Group(Text(head, style="bold"), table, Text(FOOT, "dim"))


def _precisions(kinds: Sequence[Kind], device: Device) -> str:
    """Such as `bf16, fp32, fp16*`: an asterisk where not all of our own networks run, or no engine but a few."""
    words = []
    for precision in NOT_QUANTIZED:
        found = [kind.reason is None for kind in kinds if (kind.device, kind.precision) == (device, precision)]
        if any(found):
            words.append(f"{precision}{'' if all(found) else '*'}")
    if device == Device.cpu and any(_why_not(engine, Precision.int8) is None for engine in Engine):
        words.append(f"{Precision.int8}*")
    return ", ".join(words)


def _peaks(known: Mapping[str, Ceilings]) -> str:
    """Such as `cpu: fp32 462, bf16 813; xla_cpu: fp32 369 GFLOP/s`, and which were probed beside other load."""
    parts = []
    for device, each in known.items():
        rates = (f"{word} {significant(rate / GB)}" for word, rate in each.flops_per_s.items())
        parts.append(f"{device}: {', '.join(rates)}")
    disturbed = [f"{device} {word}" for device, each in known.items() for word in each.disturbed]
    remark = f" ({TOO_LOW}: {', '.join(disturbed)})" if disturbed else ""
    return f"{'; '.join(parts)} GFLOP/s{remark}" if parts else NOT_PROBED


def _whole(
    place: Workplace, reports: Sequence[DeviceReport], kinds: Sequence[Kind], known: Mapping[str, Ceilings]
) -> RenderableType:
    """Devices, engines, versions, precisions, ceilings, data sets and settings.

    Data sets that aren't prepared and a params.yaml that isn't readable are shown as such, not raised.
    """
    devices, engines = _grid("", "", ""), _grid("", "", "")
    for report in reports:
        text = _described(report) if report.present else report.reason or ""
        devices.add_row(report.device, _yes_or_no(report.present), Text(text))
    finds_gpus, why = tensorflow_gpus()
    devices.add_row("gpu in keras", _yes_or_no(finds_gpus), Text(why))
    for engine in Engine:
        reason = _why_not(engine)
        found = reason or ", ".join(word for word in Precision if _why_not(engine, word) is None)
        engines.add_row(engine, _yes_or_no(reason is None), Text(found))
    machine = fingerprint()
    versions = {"python": machine["machine"]["python"], **machine["versions"]}
    sections: dict[str, RenderableType] = {
        "Devices": devices,
        "Engines": engines,
        "Versions": Text(", ".join(f"{name} {version}" for name, version in versions.items())),
        "Precisions that run here": _matrix(kinds),
        "At most, as probed (accelbench doctor --probe)": _ceilings(known),
        "Skipped here": _skipped(kinds),
        "Data sets": _data_table(place),
        "Settings": _settings(place),
    }
    return Group(*(part for title, body in sections.items() for part in (Text(title, style="bold"), body, Text())))


def _grid(*columns: str) -> Table:
    """A table that is readable as plain text: no frame, and the first column is never wrapped."""
    made = [Column(column, overflow="fold", no_wrap=index == 0) for index, column in enumerate(columns)]
    show_header = any(columns)
    return Table(*made, box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=show_header, header_style="dim")


def _described(report: DeviceReport, but: Collection[str] = ()) -> str:
    count = f"{report.count} x " if report.count > 1 else ""
    memory = [f"memory {report.memory_bytes / GB:.1f} GB"] if report.memory_bytes is not None else []
    details = [f"{key.replace('_', ' ')} {value}" for key, value in report.details.items() if key not in but]
    return ", ".join([count + report.name, *memory, *details])


def _yes_or_no(yes: bool, no: str = "no") -> Text:
    return Text("yes", style="green") if yes else Text(no, style="yellow")


def _matrix(kinds: Sequence[Kind]) -> RenderableType:
    """A row per precision, a column per device and mode: yes, no, or how many of the models run."""
    columns = list(dict.fromkeys((kind.device, kind.mode) for kind in kinds))
    table = _grid("precision", *(f"{device} {mode}" for device, mode in columns))
    for precision in NOT_QUANTIZED:
        cells = []
        for column in columns:
            runs = [v.reason is None for v in kinds if (v.device, v.mode) == column and v.precision == precision]
            cells.append(_yes_or_no(all(runs), f"{sum(runs)} of {len(runs)} models" if any(runs) else "no"))
        table.add_row(precision, *cells)
    return table if columns else Text("conf/model holds no model")


def _ceilings(known: Mapping[str, Ceilings]) -> RenderableType:
    """A row for each device that was probed, with its peak rates."""
    if not known:
        return Text(NOT_PROBED)
    precisions = [word for word in Precision if any(word in each.flops_per_s for each in known.values())]
    # A CPU copies nothing: the two columns would be empty, and the table too wide.
    copies_too = any(each.host_to_device_bytes_per_s for each in known.values())
    headings = [*precisions, "memory", "launch", *(["from host", "to host"] if copies_too else [])]
    table = Table("device", *(Column(each, justify="right") for each in headings), box=None, pad_edge=False)
    for device, each in known.items():
        copies = [each.host_to_device_bytes_per_s, each.device_to_host_bytes_per_s] if copies_too else []
        rates = [*(each.flops_per_s.get(word) for word in precisions), each.memory_bytes_per_s]
        billions = [[rate / GB if rate else None for rate in found] for found in (rates, copies)]
        table.add_row(device, *map(significant, [*billions[0], each.launch_s * 1e6, *billions[1]]))
    units = Text("GFLOP/s (int8: GOP/s); memory and copies in GB/s; a launch in microseconds", "dim")
    disturbed = ((device, *found) for device, each in known.items() for found in each.disturbed.items())
    reasons = [Text(f"{TOO_LOW}: {device} {word} ({reason})", "yellow") for device, word, reason in disturbed]
    return Group(table, units, *reasons)


def _skipped(kinds: Sequence[Kind]) -> RenderableType:
    """The skipped kinds of cells, each with its reason; kinds with the same reason share one entry."""
    skipped = dict.fromkeys((v.device, v.precision, v.reason) for v in kinds if v.reason is not None)
    lines: list[RenderableType] = []
    for device, precision, reason in skipped:
        hit = [v for v in kinds if (v.device, v.precision, v.reason) == (device, precision, reason)]
        modes, models = dict.fromkeys(v.mode for v in hit), dict.fromkeys(v.model for v in hit)
        which_mode = f", {' and '.join(modes)}" if len(modes) < len(Mode) else ""
        which_model = f": {', '.join(models)}" if len(models) < len({v.model for v in kinds}) else ""
        lines.append(Text(f"{device} {precision}{which_mode}{which_model}"))
        lines.append(Padding(Text(reason, style="dim"), (0, 0, 0, 4)))
    return Group(*lines) if lines else Text("nothing, on the devices that are there")


def data_sets(place: Workplace) -> dict[str, Data | str] | None:
    """Data set -> what was prepared, or why it is not there; None if params.yaml, which names them, is not readable.

    Outside of a project, all that were prepared: a run prepares any other.
    """
    names = sorted(path.parent.name for path in place.data.glob(f"*/{MANIFEST}"))
    if place.project is not None:
        try:
            names = [str(name) for name in params.load(place.project).get("data") or {}]
        except UserError:
            return None
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


def _state(data: Data | str) -> str:
    return "not prepared yet" if isinstance(data, str) else "stand-in" if data.stand_in else "ready"


def _data_table(place: Workplace) -> RenderableType:
    if (found := data_sets(place)) is None:
        return Text(UNREADABLE)
    table = _grid("", "", "")
    for name, data in found.items():
        no = "stand-in" if _state(data) == "stand-in" else "no"
        text = data if isinstance(data, str) else data.source
        table.add_row(Text(clean(name)), _yes_or_no(_state(data) == "ready", no), Text(text))
    return table if found else Text(f"{PARAMS} names none" if place.project else f"none yet in {place.data}")


def _settings(place: Workplace, *, briefly: bool = False) -> Text:
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


def ask_tensorflow() -> list[str] | None:
    """The GPUs that TensorFlow finds; None if it can't be asked."""
    try:
        asked = subprocess.run(ASK, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
        return list(json.loads(asked.stdout.splitlines()[-1]))
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def _visible() -> list[str]:
    try:
        return [gpu.name for gpu in visible_gpus()]
    except pynvml.NVMLError:
        return []


def tensorflow_gpus(
    visible: Callable[[], list[str]] = _visible, ask: Callable[[], list[str] | None] = ask_tensorflow
) -> tuple[bool, str]:
    """Whether TensorFlow would compute on the GPUs that the driver shows, and their names or why not.

    Without its CUDA libraries it takes the CPU in silence. It is asked only if there are GPUs, since it takes seconds.
    """
    if packages.folder("tensorflow") is None:
        return False, f"TensorFlow is not installed: {packages.how_to_install('keras')}"
    if not (num := len(visible())):
        return False, "no NVIDIA GPU or driver found"
    if (found := ask()) is None:
        return False, "TensorFlow did not start"
    if not found:
        return False, NO_LIBRARIES.format(num=f"{num} GPU{'s' * (num > 1)}")
    return True, " + ".join(dict.fromkeys(found)) + (f", {len(found)} of {num}" if len(found) != num else "")
