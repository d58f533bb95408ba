"""`accelbench doctor`: prints what this machine has and can do, after probing it if asked."""

import functools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from accelbench import lock
from accelbench.devices.registry import DeviceReport, look
from accelbench.doctor.facts import Facts, Kind, data_sets, relative, why_not
from accelbench.errors import UserError
from accelbench.grid.fingerprint import fingerprint
from accelbench.isolation.hosts import Hosts
from accelbench.presentation import significant
from accelbench.project import PARAMS, Workplace
from accelbench.schema.ceilings import TRUE_PRECISIONS, Ceilings
from accelbench.schema.measurement import Data
from accelbench.schema.text import clean
from accelbench.schema.vocab import NOT_QUANTIZED, Device, Engine, Mode, Precision
from accelbench.settings import params
from accelbench.settings.config import SweepOptions
from accelbench.sweep.early import plain_cell
from accelbench.sweep.prober import PROBING_ENGINE, Prober, Quiet, is_allowed

GB = 1e9  # bytes
LEFT_OUT = ("physical_cores", "logical_cores", "instruction_sets")  # details of a device that the summary leaves out
FOOT = "* not with every network or engine; for details: accelbench doctor --all"
TOO_LOW = "too low, since probed beside other load"
NOT_PROBED = "not probed yet: the first cell on each device does it"
UNREADABLE = f"unknown: {PARAMS} is not readable"


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
    console.print((_whole if whole else _summary)(Facts.of(place)))


def _summary(facts: Facts) -> RenderableType:
    """A dozen lines of 80 columns."""
    present = [report.device for report in facts.reports if report.present]
    absent = [report.device for report in facts.reports if not report.present]
    head = f"{', '.join(present)} {'run' if len(present) > 1 else 'runs'} here"
    head += f"; not here: {', '.join(absent)}" if absent else ""
    table = _grid("", "")
    for report in facts.reports:
        if not report.present:
            table.add_row(report.device, Text(report.reason or ""))
        elif report.device != Device.xla_cpu:  # the CPU again
            table.add_row(report.device, Text(_described(report, but=LEFT_OUT)))
            if sets := report.details.get("instruction_sets"):
                table.add_row("", Text(sets))
    finds_gpus, why = facts.tensorflow
    if Device.gpu in present and not finds_gpus:
        table.add_row("gpu in keras", Text(why))
    there = [engine for engine in Engine if why_not(engine) is None]
    missing = ", ".join(engine for engine in Engine if engine not in there)
    table.add_row("engines", Text(", ".join(there) + (f"; not installed: {missing}" if missing else "")))
    for device in present:
        table.add_row(f"on {device}", Text(_precisions(facts, device)))
    table.add_row("at most", Text(_peaks(facts.ceilings)))
    sets_found = _data_sets(facts.place)
    states = Counter(_state(each) for each in sets_found.values()) if sets_found is not None else {}
    counts = ", ".join(f"{states[word]} {word}" for word in ("ready", "stand-in", "not prepared yet") if word in states)
    table.add_row("data", Text(UNREADABLE if sets_found is None else counts or "none yet"))
    table.add_row("project", _settings(facts.place, briefly=True))
    return Group(Text(head, style="bold"), table, Text(FOOT, "dim"))


def _precisions(facts: Facts, device: Device) -> str:
    """Such as `bf16, fp32, fp16*`: an asterisk where not all of our own networks run, or no engine but a few."""
    words = []
    for precision in NOT_QUANTIZED:
        found = [kind.reason is None for kind in facts.kinds if (kind.device, kind.precision) == (device, precision)]
        if any(found):
            words.append(f"{precision}{'' if all(found) else '*'}")
    if device == Device.cpu and any(why_not(engine, Precision.int8) is None for engine in Engine):
        words.append(f"{Precision.int8}*")
    return ", ".join(words)


def _peaks(known: Mapping[str, Ceilings]) -> str:
    """Such as `cpu: fp32 462, bf16 813; xla_cpu: fp32 369 GFLOP/s`, and which were probed beside other load."""
    rates = {device: each.flops_per_s.items() for device, each in known.items()}
    parts = [
        f"{device}: {', '.join(f'{word} {significant(rate / GB)}' for word, rate in found)}"
        for device, found in rates.items()
    ]
    disturbed = [f"{device} {word}" for device, each in known.items() for word in each.disturbed]
    remark = f" ({TOO_LOW}: {', '.join(disturbed)})" if disturbed else ""
    return f"{'; '.join(parts)} GFLOP/s{remark}" if parts else NOT_PROBED


def _whole(facts: Facts) -> RenderableType:
    """Devices, engines, versions, precisions, ceilings, data sets and settings.

    Data sets that aren't prepared and a params.yaml that isn't readable are shown as such, not raised.
    """
    devices = _grid("", "", "")
    for report in facts.reports:
        text = _described(report) if report.present else report.reason or ""
        devices.add_row(report.device, _yes_or_no(report.present), Text(text))
    devices.add_row("gpu in keras", _yes_or_no(facts.tensorflow[0]), Text(facts.tensorflow[1]))
    engines = _grid("", "", "")
    for engine in Engine:
        reason = why_not(engine)
        found = reason or ", ".join(word for word in Precision if why_not(engine, word) is None)
        engines.add_row(engine, _yes_or_no(reason is None), Text(found))
    machine = fingerprint()
    versions = {"python": machine["machine"]["python"], **machine["versions"]}
    sections: dict[str, RenderableType] = {
        "Devices": devices,
        "Engines": engines,
        "Versions": Text(", ".join(f"{name} {version}" for name, version in versions.items())),
        "Precisions that run here": _matrix(facts.kinds),
        "At most, as probed (accelbench doctor --probe)": _ceilings(facts.ceilings),
        "Skipped here": _skipped(facts.kinds),
        "Data sets": _data_table(facts.place),
        "Settings": _settings(facts.place),
    }
    return Group(*(part for title, body in sections.items() for part in (Text(title, style="bold"), body, Text())))


def _grid(*columns: str) -> Table:
    """A table that is readable as plain text: no frame, and the first column is never wrapped."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(columns), header_style="dim")
    for index, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=index == 0)
    return table


def _described(report: DeviceReport, but: Collection[str] = ()) -> str:
    """A device's name, memory and details, without the details named in `but`."""
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
            some = f"{sum(runs)} of {len(runs)} models" if any(runs) else "no"
            cells.append(_yes_or_no(all(runs), some))
        table.add_row(precision, *cells)
    return table if columns else Text("conf/model holds no model")


def _ceilings(known: Mapping[str, Ceilings]) -> RenderableType:
    """A row for each device that was probed, with its peak rates."""
    if not known:
        return Text(NOT_PROBED)
    table = Table(box=None, pad_edge=False)
    precisions = [word for word in Precision if any(word in ceilings.flops_per_s for ceilings in known.values())]
    # A CPU copies nothing: the two columns would be empty, and the table too wide.
    copies_too = any(ceilings.host_to_device_bytes_per_s for ceilings in known.values())
    for heading in ["device", *precisions, "memory", "launch", *(["from host", "to host"] if copies_too else [])]:
        table.add_column(heading, justify="left" if heading == "device" else "right")
    for device, each in known.items():
        copies = [each.host_to_device_bytes_per_s, each.device_to_host_bytes_per_s] if copies_too else []
        rates = [each.flops_per_s.get(word) for word in precisions]
        launch = each.launch_s * 1e6
        billions = [rate / GB if rate else None for rate in [*rates, each.memory_bytes_per_s, *copies]]
        billions.insert(len(rates) + 1, launch)
        table.add_row(device, *map(significant, billions))
    units = Text("GFLOP/s (int8: GOP/s); memory and copies in GB/s; a launch in microseconds", "dim")
    reasons = [
        Text(f"{TOO_LOW}: {device} {word} ({reason})", "yellow")
        for device, ceilings in known.items()
        for word, reason in ceilings.disturbed.items()
    ]
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


def _data_sets(place: Workplace) -> dict[str, Data | str] | None:
    try:
        return data_sets(place)
    except UserError:
        return None


def _state(data: Data | str) -> str:
    return "not prepared yet" if isinstance(data, str) else "stand-in" if data.stand_in else "ready"


def _data_table(place: Workplace) -> RenderableType:
    if (found := _data_sets(place)) is None:
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
        return Text(relative(error, place.root), style="red")
    names = list(map(str, settings.get("suites") or {}))
    suites = f"{len(names)} suites" if briefly else f"suites: {', '.join(names) or 'none'}"
    return Text(f"{PARAMS}: profile {settings.get('profile')}, {suites}")
