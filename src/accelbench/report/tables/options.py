"""What options gain: each cell with options and the cell that differs only in having none."""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables.table import Column, Entry, Table, count, number, tabulate_known, word
from accelbench.schema.cell import Options
from accelbench.schema.record import Row
from accelbench.schema.serialize import group_key
from accelbench.schema.vocab import Allocator, Engine, KerasBackend, Precision

FLAGS = [field.name for field in fields(Options) if field.name != "allocator"]
# Every word that a text of options may have for one of them.
NAMES = [*FLAGS, *(each.value for each in Allocator if each != Allocator.default)]
PLAIN, PLAIN_TEXT = Options(), "plain"
NOTES = [
    "Over plain: samples/s over the samples/s of the same cell without options; over plain fp32: of the same cell "
    "without options in fp32. Each cell is one process: a gain of a few percent may be noise.",
    "Compile: seconds from an empty cache, with the first use of inductor in the process. Pays after: the number of "
    "steps after which the saved time equals the compile time; the column against names the cell that a step is "
    "compared with, the same one uncompiled, else plain.",
    "Output error: the norm of the difference from the output of the same weights in plain fp32 on the CPU, as a share "
    "of that output's norm; a dash in training, and for plain fp32 on the CPU.",
]


def options_text(row: Row) -> str | None:
    """The options that are on in a row of `cells.csv`, such as `channels_last + compile`; None if all are off.

    Several devices and an engine other than the first count as options here, so that such cells are marked wherever
    options are shown.
    """
    enabled = _switches(row)
    if row["scaling"] is not None:
        per_device = ", a process each" if row["xla_processes"] else ""
        enabled.append(f"{row['devices']} devices ({row['scaling']}{per_device})")
    if row["asked_threads"] is not None:
        enabled.append(f"{row['asked_threads']} thread{'s' * (row['asked_threads'] != 1)}")
    if row["engine"] != Engine.lightning:
        enabled.append(engine_text(row))
    return " + ".join(enabled) or None


def switches_text(row: Row) -> str:
    """The same of `schema.cell.Options` alone; empty if all are off."""
    return " + ".join(_switches(row))


def engine_text(row: Row) -> str:
    """The engine with its own settings, such as `keras jit_compile`."""
    return " ".join(_engine(row))


def _switches(row: Row) -> list[str]:
    enabled = [name for name in FLAGS if row[name]]
    return [*enabled, str(row["allocator"])] if row["allocator"] != Allocator.default else enabled


def _engine(row: Row) -> Iterator[str]:
    yield str(row["engine"])
    if row["backend"] == KerasBackend.jax:
        yield KerasBackend.jax
    elif row["jit_compile"]:
        yield "jit_compile"
    if row["steps_per_execution"] not in (None, 1):
        yield f"{row['steps_per_execution']} steps per execution"


def steps_to_pay(plain_step_s: float, compiled_step_s: float, compile_s: float) -> int | None:
    """The number of steps after which compiling has paid: compile time over the time that a step saves.

    Args:
        plain_step_s: the median step of the cell that is not compiled.
        compiled_step_s: the median step of the compiled cell.
        compile_s: seconds that compiling took.

    Returns:
        None if a step saves no time: compiling never pays.
    """
    saved = plain_step_s - compiled_step_s
    return math.ceil(compile_s / saved) if saved > 0 else None


@dataclass(frozen=True)
class _OptionsGain:
    """An ok cell, and the ok cells that differ only in the options.

    Attributes:
        by_options: the cells of the same precision.
        fp32_by_options: the same cells in fp32.
    """

    reported: ReportedCell
    by_options: dict[Options, ReportedCell]
    fp32_by_options: dict[Options, ReportedCell]

    @property
    def uncompiled(self) -> ReportedCell | None:
        """The cell that a compiled one is compared with: equal but not compiled, else plain; None if unknown."""
        options = self.reported.cell.options
        if not (options.compile or options.cuda_graphs) or self.reported.row["compile_s"] is None:
            return None
        return self.by_options.get(replace(options, compile=False, cuda_graphs=False)) or self.by_options.get(PLAIN)


def _gain(reported: ReportedCell, plain: ReportedCell | None) -> Entry:
    return number(reported.over(plain, "samples_per_s"))


def _steps_until_it_pays(gain: _OptionsGain) -> Entry:
    compile_s = gain.reported.number("compile_s")
    if gain.uncompiled is None or compile_s is None:
        return count(None)
    num = steps_to_pay(_step_s(gain.uncompiled), _step_s(gain.reported), compile_s)
    return Entry("never", None) if num is None else count(num)


def _compared_with(gain: _OptionsGain) -> Entry:
    return word((options_text(gain.uncompiled.row) or PLAIN_TEXT) if gain.uncompiled else None)


COLUMNS: list[Column[_OptionsGain]] = [
    Column("network", lambda gain: word(gain.reported.cell.model.name)),
    Column("mode", lambda gain: word(gain.reported.cell.mode)),
    Column("device", lambda gain: word(gain.reported.cell.device)),
    Column("precision", lambda gain: word(gain.reported.cell.precision)),
    Column("batch", lambda gain: count(gain.reported.cell.batch_size)),
    Column("protocol", lambda gain: word(gain.reported.cell.protocol)),
    Column("options", lambda gain: word(options_text(gain.reported.row) or PLAIN_TEXT)),
    Column("samples/s", lambda gain: number(gain.reported.row["samples_per_s"])),
    Column("low", lambda gain: number(gain.reported.row["samples_per_s_low"])),
    Column("high", lambda gain: number(gain.reported.row["samples_per_s_high"])),
    Column("over plain (x)", lambda gain: _gain(gain.reported, gain.by_options.get(PLAIN))),
    Column("over plain fp32 (x)", lambda gain: _gain(gain.reported, gain.fp32_by_options.get(PLAIN))),
    Column("compile (s)", lambda gain: number(gain.reported.row["compile_s"])),
    Column("pays after (steps)", _steps_until_it_pays),
    Column("against", _compared_with),
    Column("output error", lambda gain: number(gain.reported.row["output_error"])),
]


def by_options(sweep: Sweep) -> dict[str, dict[Options, ReportedCell]]:
    """The ok cells with a throughput by their options, in groups that differ only in those."""
    groups: dict[str, dict[Options, ReportedCell]] = defaultdict(dict)
    for reported in sweep.cells:
        if reported.is_ok and reported.number("samples_per_s"):
            groups[_all_but_options(reported)][reported.cell.options] = reported
    return groups


def table(sweep: Sweep) -> Table | None:
    """The ok cells that were measured with options and without; None if none was measured with options."""
    groups = by_options(sweep)
    gains = [
        _OptionsGain(reported, group, groups.get(_all_but_options(reported, precision=Precision.fp32), {}))
        for group in groups.values()
        if set(group) != {PLAIN}
        for reported in group.values()
    ]
    return tabulate_known("Options", COLUMNS, gains, NOTES)


def _all_but_options(reported: ReportedCell, **changes: str) -> str:
    return group_key(reported.all_but("options") | changes)


def _step_s(reported: ReportedCell) -> float:
    """Seconds of the median step, without waits in between."""
    rate = reported.number("samples_per_s")
    assert rate
    return reported.cell.batch_size / rate
