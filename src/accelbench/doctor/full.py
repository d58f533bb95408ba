"""What `accelbench doctor --all` shows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from accelbench.devices.registry import DeviceReport, look
from accelbench.doctor import tensorflow_gpus
from accelbench.doctor.facts import GB, NOT_PROBED, TOO_LOW, data_sets, facts, grid, settings_of
from accelbench.doctor.support import Support, judge, own_models, plain, runs
from accelbench.errors import UserError
from accelbench.grid import fingerprint, support
from accelbench.presentation import significant
from accelbench.project import PARAMS, Workplace
from accelbench.schema.ceilings import read_ceilings
from accelbench.schema.text import clean
from accelbench.schema.vocab import NOT_QUANTIZED, Device, Engine, Mode, Precision
from accelbench.sweep.prober import PROBING_ENGINE


def examine(place: Workplace) -> RenderableType:
    """Devices, engines, versions, precisions, ceilings, data sets and settings, for rich to print.

    Data sets that aren't prepared and a params.yaml that isn't readable are shown as such, not raised.

    Args:
        place: whose configuration, data sets and ceilings are shown.

    Raises:
        UserError: a file in conf/model is not readable.
    """
    reports = [look(device) for device in Device]
    verdicts = list(judge([report for report in reports if report.present], own_models(place.conf)))
    return Group(
        *_section("Devices", _devices(reports, tensorflow_gpus.look())),
        *_section("Engines", _engines()),
        *_section("Versions", _versions()),
        *_section("Precisions that run here", _matrix(verdicts)),
        *_section("At most, as probed (accelbench doctor --probe)", _ceilings(place)),
        *_section("Skipped here", _skipped(verdicts)),
        *_section("Data sets", _data_sets(place)),
        *_section("Settings", settings_of(place)),
    )


def _section(title: str, body: RenderableType) -> tuple[RenderableType, ...]:
    return Text(title, style="bold"), body, Text()


def _devices(reports: Iterable[DeviceReport], tensorflow: tensorflow_gpus.Answer) -> Table:
    """A row for each device, and one for the GPU as Keras on TensorFlow sees it."""
    table = grid("", "", "")
    for report in reports:
        if report.present:
            table.add_row(report.device, _yes_or_no(True), Text(facts(report)))
        else:
            table.add_row(report.device, _yes_or_no(False), Text(report.reason or ""))
    table.add_row("gpu in keras", _yes_or_no(tensorflow.found), Text(tensorflow.text))
    return table


def _engines() -> Table:
    """A row for each engine: in which precisions it infers on this CPU, or why not at all."""
    table = grid("", "", "")
    for engine in Engine:
        cell = plain(engine)
        reason = support.why_not(cell, look(Device.cpu))
        found = reason or ", ".join(word for word in Precision if runs(replace(cell, precision=word)))
        table.add_row(engine, _yes_or_no(reason is None), Text(found))
    return table


def _yes_or_no(yes: bool) -> Text:
    return Text("yes", style="green") if yes else Text("no", style="yellow")


def _versions() -> Text:
    found = fingerprint.fingerprint()
    versions: Mapping[str, str] = {"python": found["machine"]["python"], **found["versions"]}
    return Text(", ".join(f"{name} {version}" for name, version in versions.items()))


def _matrix(verdicts: Sequence[Support]) -> RenderableType:
    """A row per precision, a column per device and mode: yes, no, or how many of the models run."""
    columns = list(dict.fromkeys((verdict.device, verdict.mode) for verdict in verdicts))
    table = grid("precision", *(f"{device} {mode}" for device, mode in columns))
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
        return Text(NOT_PROBED)
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
    reasons = [
        Text(f"{TOO_LOW}: {device} {word} ({reason})", "yellow")
        for device, ceilings in known.items()
        for word, reason in ceilings.disturbed.items()
    ]
    return Group(table, units, *reasons)


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
        found = data_sets(place)
    except UserError:
        return Text(f"unknown: {PARAMS} is not readable")
    table = grid("", "", "")
    for each in found:
        if each.data is None:
            table.add_row(Text(clean(each.name)), Text("no", style="yellow"), Text(each.problem or ""))
        else:
            state = Text("stand-in", style="yellow") if each.data.stand_in else Text("yes", style="green")
            table.add_row(Text(clean(each.name)), state, Text(each.data.source))
    return table if found else Text(f"{PARAMS} names none" if place.project else f"none yet in {place.data}")
