"""What `accelbench doctor --all` shows."""

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from accelbench.devices.registry import look
from accelbench.doctor.facts import (
    GB,
    NOT_PROBED,
    TOO_LOW,
    Facts,
    Kind,
    data_sets,
    described,
    plain,
    runs,
    settings_of,
)
from accelbench.errors import UserError
from accelbench.grid import support
from accelbench.grid.fingerprint import fingerprint
from accelbench.presentation import significant
from accelbench.project import PARAMS, Workplace
from accelbench.schema.ceilings import Ceilings
from accelbench.schema.text import clean
from accelbench.schema.vocab import NOT_QUANTIZED, Device, Engine, Mode, Precision


def view(facts: Facts) -> RenderableType:
    """Devices, engines, versions, precisions, ceilings, data sets and settings.

    Data sets that aren't prepared and a params.yaml that isn't readable are shown as such, not raised.
    """
    return Group(
        *_section("Devices", _devices(facts)),
        *_section("Engines", _engines()),
        *_section("Versions", _versions()),
        *_section("Precisions that run here", _matrix(facts.kinds)),
        *_section("At most, as probed (accelbench doctor --probe)", _ceilings(facts.ceilings)),
        *_section("Skipped here", _skipped(facts.kinds)),
        *_section("Data sets", _data_sets(facts.place)),
        *_section("Settings", settings_of(facts.place)),
    )


def grid(*columns: str) -> Table:
    """A table that is readable as plain text: no frame, and the first column is never wrapped."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(columns), header_style="dim")
    for index, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=index == 0)
    return table


def _section(title: str, body: RenderableType) -> tuple[RenderableType, ...]:
    return Text(title, style="bold"), body, Text()


def _devices(facts: Facts) -> Table:
    """A row for each device, and one for the GPU as Keras on TensorFlow sees it."""
    table = grid("", "", "")
    for report in facts.reports:
        text = described(report) if report.present else report.reason or ""
        table.add_row(report.device, _yes_or_no(report.present), Text(text))
    table.add_row("gpu in keras", _yes_or_no(facts.tensorflow.found), Text(facts.tensorflow.text))
    return table


def _engines() -> Table:
    """A row for each engine: in which precisions it infers on this CPU, or why not at all."""
    table = grid("", "", "")
    for engine in Engine:
        reason = support.why_not(plain(engine), look(Device.cpu))
        found = reason or ", ".join(word for word in Precision if runs(plain(engine, word)))
        table.add_row(engine, _yes_or_no(reason is None), Text(found))
    return table


def _yes_or_no(yes: bool) -> Text:
    return Text("yes", style="green") if yes else Text("no", style="yellow")


def _versions() -> Text:
    found = fingerprint()
    versions: Mapping[str, str] = {"python": found["machine"]["python"], **found["versions"]}
    return Text(", ".join(f"{name} {version}" for name, version in versions.items()))


def _matrix(kinds: Sequence[Kind]) -> RenderableType:
    """A row per precision, a column per device and mode: yes, no, or how many of the models run."""
    columns = list(dict.fromkeys((kind.device, kind.mode) for kind in kinds))
    table = grid("precision", *(f"{device} {mode}" for device, mode in columns))
    for precision in NOT_QUANTIZED:
        cells = []
        for column in columns:
            runs = [v.reason is None for v in kinds if (v.device, v.mode) == column and v.precision == precision]
            cells.append(_share(sum(runs), len(runs)))
        table.add_row(precision, *cells)
    return table if columns else Text("conf/model holds no model")


def _share(num_running: int, num_all: int) -> Text:
    if num_running == num_all:
        return Text("yes", style="green")
    return Text(f"{num_running} of {num_all} models", style="yellow") if num_running else Text("no", style="yellow")


def _ceilings(known: Mapping[str, Ceilings]) -> RenderableType:
    """A row for each device that was probed, with its peak rates."""
    if not known:
        return Text(NOT_PROBED)
    table = Table(box=None, pad_edge=False)
    precisions = [word for word in Precision if any(word in ceilings.flops_per_s for ceilings in known.values())]
    # A CPU copies nothing: the two columns would be empty, and the table too wide.
    copies_too = any(ceilings.host_to_device_bytes_per_s for ceilings in known.values())
    of_copies = ["from host", "to host"] if copies_too else []
    for heading in ["device", *precisions, "memory", "launch", *of_copies]:
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


def _skipped(kinds: Sequence[Kind]) -> RenderableType:
    """The skipped kinds of cells, each with its reason; kinds with the same reason share one entry."""
    skipped = dict.fromkeys((v.device, v.precision, v.reason) for v in kinds if v.reason is not None)
    lines: list[RenderableType] = []
    for device, precision, reason in skipped:
        hit = [v for v in kinds if (v.device, v.precision, v.reason) == (device, precision, reason)]
        lines.append(Text(f"{device} {precision}{_scope(hit, kinds)}"))
        lines.append(Padding(Text(reason, style="dim"), (0, 0, 0, 4)))
    return Group(*lines) if lines else Text("nothing, on the devices that are there")


def _scope(hit: Sequence[Kind], kinds: Sequence[Kind]) -> str:
    """The modes and models of `hit`; empty if these are all modes and models."""
    modes, models = dict.fromkeys(v.mode for v in hit), dict.fromkeys(v.model for v in hit)
    which_mode = f", {' and '.join(modes)}" if len(modes) < len(Mode) else ""
    which_model = f": {', '.join(models)}" if len(models) < len({v.model for v in kinds}) else ""
    return which_mode + which_model


def _data_sets(place: Workplace) -> RenderableType:
    try:
        found = data_sets(place)
    except UserError:
        return Text(f"unknown: {PARAMS} is not readable")
    table = grid("", "", "")
    for name, data in found.items():
        if isinstance(data, str):
            table.add_row(Text(clean(name)), Text("no", style="yellow"), Text(data))
        else:
            state = Text("stand-in", style="yellow") if data.stand_in else Text("yes", style="green")
            table.add_row(Text(clean(name)), state, Text(data.source))
    return table if found else Text(f"{PARAMS} names none" if place.project else f"none yet in {place.data}")
