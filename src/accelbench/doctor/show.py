"""`accelbench doctor`: prints what this machine and its project have and can do.

With --probe, it first measures the ceilings, which are the highest speeds that a probe reaches on each device.
"""

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from accelbench import lock
from accelbench.data.arrays import read_manifest
from accelbench.devices.registry import DeviceReport, look
from accelbench.errors import UserError
from accelbench.grid import support
from accelbench.grid.fingerprint import fingerprint
from accelbench.isolation.hosts import Hosts
from accelbench.judging.verdict import is_allowed
from accelbench.presentation import significant
from accelbench.project import MANIFEST, PARAMS, Workplace
from accelbench.schema.ceilings import TRUE_PRECISIONS, Ceilings, read_ceilings
from accelbench.schema.cell import Cell, KerasSettings
from accelbench.schema.text import clean, one_line
from accelbench.schema.vocab import NOT_QUANTIZED, STEP_MODES, Device, Engine, Mode, Precision, Protocol
from accelbench.schema.workload import DataSpec, ModelSpec
from accelbench.settings import params
from accelbench.settings.config import SweepOptions
from accelbench.sweep.prober import PROBING_ENGINE, Prober, Quiet

GB = 1e9  # bytes
FOOT = "* only in one mode (train, infer) or on some engines: accelbench doctor --all"
NOT_PROBED = "not probed yet: the first cell that runs on a device probes the device"
PRECISIONS, PEAK = "Precisions that run here", "At most, as probed (accelbench doctor --probe)"
BRIEF = ("Devices", "Engines", PRECISIONS, PEAK, "Project")  # sections of the summary
Rows = list[tuple[str, str]]


# Device, precision and mode -> why a cell of our network `mlp` can't run here; None if it can.
Kinds = Mapping[tuple[Device, Precision, Mode], str | None]


def show(place: Workplace, console: Console, *, probe: bool = False, whole: bool = False) -> None:
    """Prints a summary of what this machine has and can do. If `whole`, prints all sections instead.

    If `probe`, measures the ceilings of the devices first.
    """
    reports = [look(device) for device in Device]
    present = [report for report in reports if report.present]
    if probe:
        say = functools.partial(console.print, markup=False)
        with lock.hold_measuring(say), Hosts() as hosts:
            quiet = Quiet(0.0 if is_allowed() else SweepOptions.quiet_s, say)
            prober = Prober(hosts, place.cache, fingerprint(PROBING_ENGINE), say, quiet=quiet)
            for report in present:
                prober.probe(_plain_cell(report.device), TRUE_PRECISIONS)
    kinds = {
        (report.device, precision, mode): support.why_not(_plain_cell(report.device, precision, mode), report)
        for report, precision, mode in itertools.product(present, NOT_QUANTIZED, STEP_MODES)
    }
    ceilings_of = read_ceilings(place.cache, fingerprint(PROBING_ENGINE))
    sections = _sections(place, reports, kinds, ceilings_of)
    if whole:
        for title, rows in sections.items():
            console.print(Text(title, "bold"))
            console.print(_table(rows), end="\n\n")
        return
    there = ", ".join(report.device for report in present)
    absent = ", ".join(report.device for report in reports if not report.present)
    console.print(Text(f"{there} run here{f'; not here: {absent}' if absent else ''}", "bold"))
    console.print(_table([row for title in BRIEF for row in sections[title]]))
    console.print(Text(FOOT, "dim"))


def _plain_cell(device: Device, precision: Precision = Precision.fp32, mode: Mode = Mode.infer) -> Cell:
    """Returns a small cell with these settings, to ask what a device supports."""
    return Cell(
        suite="",
        engine=Engine.pytorch,
        device=device,
        model=ModelSpec(name="mlp"),
        data=DataSpec(name=""),
        mode=mode,
        precision=precision,
        batch_size=1,
        protocol=Protocol.window,
        epochs=1,
    )


def _why_not(engine: Engine, precision: Precision = Precision.fp32) -> str | None:
    """Returns the reason why the engine can't do inference in this precision on this CPU, or None if it can."""
    keras = KerasSettings() if engine == Engine.keras else None
    return support.why_not(replace(_plain_cell(Device.cpu, precision), engine=engine, keras=keras), look(Device.cpu))


def _table(rows: Rows) -> Table:
    """Makes a table without a frame, which is easy to read as plain text. The first column is never wrapped."""
    columns = Column(no_wrap=True), Column(overflow="fold")
    table = Table.grid(*columns, padding=(0, 2, 0, 0))
    for name, text in rows:
        table.add_row(name, Text(text))
    return table


def _sections(
    place: Workplace, reports: Sequence[DeviceReport], kinds: Kinds, ceilings_of: Mapping[str, Ceilings]
) -> dict[str, Rows]:
    """Returns a dict from a section's title to its rows. `BRIEF` has the sections of the summary."""
    engines: Rows = []
    for engine in Engine:
        reason = _why_not(engine)
        words = ", ".join(word for word in Precision if _why_not(engine, word) is None)
        engines.append((engine, f"yes: {words}" if reason is None else f"no: {reason}"))
    none = f"{PARAMS} names none" if place.project else f"none yet in {place.data}"
    machine = fingerprint()
    return {
        "Devices": [(report.device, _described(report)) for report in reports],
        "Engines": engines,
        "Versions": [*{"python": machine["machine"]["python"], **machine["versions"]}.items()],
        PRECISIONS: _precisions(kinds),
        PEAK: _ceilings(ceilings_of),
        "Skipped here": _skipped(kinds),
        "Data sets": _data_sets(place) or [("", none)],
        "Project": [("project", _settings(place))],
    }


def _described(report: DeviceReport) -> str:
    if not report.present:
        return report.reason or ""
    count = f"{report.count} x " if report.count > 1 else ""
    memory = [f"memory {report.memory_bytes / GB:.1f} GB"] if report.memory_bytes is not None else []
    details = [f"{key.replace('_', ' ')} {value}" for key, value in report.details.items()]
    return ", ".join([count + report.name, *memory, *details])


def _precisions(kinds: Kinds) -> Rows:
    """Returns pairs of a device and its precisions, such as `bf16, fp32, fp16*`.

    `*` marks a precision that runs in only one of the two modes, or only on some engines.
    """
    rows: Rows = []
    for device in dict.fromkeys(device for device, _, _ in kinds):
        words = []
        for precision in NOT_QUANTIZED:
            runs = [kinds[device, precision, mode] is None for mode in STEP_MODES]
            if any(runs):
                words.append(f"{precision}{'' if all(runs) else '*'}")
        if device == Device.cpu and any(_why_not(engine, Precision.int8) is None for engine in Engine):
            words.append(f"{Precision.int8}*")
        rows.append((f"on {device}", ", ".join(words)))
    return rows


def _ceilings(ceilings_of: Mapping[str, Ceilings]) -> Rows:
    rows: Rows = []
    for device, ceilings in ceilings_of.items():
        rates = ", ".join(f"{word} {significant(rate / GB)}" for word, rate in ceilings.flops_per_s.items())
        rows.append((f"{device} peak", f"{rates} GFLOP/s (int8: GOP/s)"))
        speeds = {
            "memory": ceilings.memory_bytes_per_s,
            "from host": ceilings.host_to_device_bytes_per_s,
            "to host": ceilings.device_to_host_bytes_per_s,
        }
        words = [f"{name} {significant(rate / GB)} GB/s" for name, rate in speeds.items() if rate]
        rows.append(("", ", ".join([*words, f"a launch {significant(ceilings.launch_s * 1e6)} us"])))
    return rows or [("peak rates", NOT_PROBED)]


def _skipped(kinds: Kinds) -> Rows:
    rows: Rows = []
    for device, precision, reason in dict.fromkeys((*key[:2], reason) for key, reason in kinds.items() if reason):
        modes = [mode for mode in STEP_MODES if kinds[device, precision, mode] == reason]
        which = f", {modes[0]}" if len(modes) < len(STEP_MODES) else ""
        rows.append((f"{device} {precision}{which}", reason))
    return rows or [("", "nothing on the devices of this machine")]


def _data_sets(place: Workplace) -> Rows:
    """Returns pairs of a data set and its source, or why it is not prepared. Raises UserError: params.yaml is wrong."""
    names = sorted(path.parent.name for path in place.data.glob(f"*/{MANIFEST}"))
    if place.project is not None:
        names = list(params.load(place.project).data)
    rows: Rows = []
    for name in names:
        try:
            data = read_manifest(place.data / name)
            text = f"{'stand-in' if data.stand_in else 'ready'}: {data.source}"
        except UserError as error:
            text = "not prepared yet: " + one_line(str(error).replace(f"{place.root}/", ""))
        rows.append((clean(name), text))
    return rows


def _settings(place: Workplace) -> str:
    if place.project is None:
        return f"this folder and its parents have no {PARAMS} with suites: `accelbench init` makes a project"
    settings = params.load(place.project)
    return f"{PARAMS}: profile {settings.profile}, {len(settings.suites)} suites"
