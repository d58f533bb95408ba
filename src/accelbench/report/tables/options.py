"""What options gain: each cell that has some on beside the plain one that is equal in all else."""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields, replace

from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables.table import Entry, Table, count, number, word
from accelbench.schema.cell import Options
from accelbench.schema.record import Row
from accelbench.schema.serialize import canonical_json
from accelbench.schema.vocab import Engine, KerasBackend, Precision

NAMES = [field.name for field in fields(Options)]
PLAIN = "plain"
NOTES = [
    "Over plain: samples/s over those of the cell without options that is equal in all else; over plain fp32: of that "
    "cell in fp32. Each is one process: a gain of some percent may be noise.",
    "Compile: seconds from an empty cache, the first use of inductor in its process included. Pays after: compile "
    "seconds over what a step saves against the cell that is named, which is equal but not compiled, else plain.",
    "Output error: how far the output is from that of the same weights in plain fp32 on the CPU, as a share of its "
    "norm; a dash where nothing is compared: in training, and for plain fp32 on the CPU itself.",
]


def named(row: Row) -> str | None:
    """The options that are on in a row of `cells.csv`, such as `channels_last + compile`; None where none is.

    Several devices count as one, and so does an engine that is not the first: such cells are told apart from the others
    wherever these are shown.
    """
    on = [name for name in NAMES if row[name]]
    if row["scaling"] is not None:
        each = ", a process each" if row["xla_processes"] else ""
        on.append(f"{row['devices']} devices ({row['scaling']}{each})")
    if row["engine"] != Engine.lightning:
        on.append(" ".join(_engine(row)))
    return " + ".join(on) or None


def _engine(row: Row) -> Iterator[str]:
    """The engine with what is its own, such as `keras jit_compile`."""
    yield str(row["engine"])
    if row["backend"] == KerasBackend.jax:
        yield KerasBackend.jax
    elif row["jit_compile"]:
        yield "jit_compile"
    if row["steps_per_execution"] not in (None, 1):
        yield f"{row['steps_per_execution']} steps per execution"


def steps_to_pay(plain_step_s: float, compiled_step_s: float, compile_s: float) -> int | None:
    """After how many steps the compiled network has caught up: compile time over what a step saves.

    Args:
        plain_step_s: the median step of the cell that is not compiled.
        compiled_step_s: that of the compiled one.
        compile_s: seconds that compiling took.

    Returns:
        None where a step saves nothing: it never pays.
    """
    saved = plain_step_s - compiled_step_s
    return math.ceil(compile_s / saved) if saved > 0 else None


def table(sweep: Sweep) -> Table | None:
    """The ok cells that were measured with options and without; None where none was with."""
    groups: dict[str, dict[Options, ReportedCell]] = defaultdict(dict)
    for planned in sweep.cells:
        if planned.is_ok and planned.number("samples_per_s"):
            groups[_equal_but_for_options(planned)][planned.cell.options] = planned
    rows = [
        _row(planned, group, groups.get(_equal_but_for_options(planned, precision=Precision.fp32), {}))
        for group in groups.values()
        if set(group) != {Options()}
        for planned in group.values()
    ]
    headings = ["network", "mode", "device", "precision", "batch", "protocol", "options", "samples/s", "low", "high"]
    headings += ["over plain (x)", "over plain fp32 (x)", "compile (s)", "pays after (steps)", "against"]
    headings += ["output error"]
    return Table(title="Options", headings=headings, rows=rows, notes=NOTES).known() if rows else None


def _equal_but_for_options(planned: ReportedCell, **changes: str) -> str:
    return canonical_json(planned.all_but("options") | changes)


def _row(
    planned: ReportedCell, group: dict[Options, ReportedCell], in_fp32: dict[Options, ReportedCell]
) -> list[Entry]:
    cell, row = planned.cell, planned.row
    head = [word(cell.model.name), word(cell.mode), word(cell.device), word(cell.precision), count(cell.batch_size)]
    rates = [number(row[f"samples_per_s{end}"]) for end in ("", "_low", "_high")]
    gains = [number(_gain(planned, group.get(Options()))), number(_gain(planned, in_fp32.get(Options())))]
    is_compiled = cell.options.compile or cell.options.cuda_graphs
    against = _uncompiled(cell.options, group) if is_compiled and row["compile_s"] is not None else None
    return [
        *head,
        *[word(cell.protocol), word(named(row) or PLAIN), *rates, *gains],
        *[number(row["compile_s"]), *_pays(planned, against), number(row["output_error"])],
    ]


def _gain(planned: ReportedCell, other: ReportedCell | None) -> float | None:
    mine, theirs = planned.number("samples_per_s"), other.number("samples_per_s") if other else None
    return mine / theirs if mine is not None and theirs else None


def _uncompiled(options: Options, group: dict[Options, ReportedCell]) -> ReportedCell | None:
    """The cell that says what compiling is worth."""
    return group.get(replace(options, compile=False, cuda_graphs=False)) or group.get(Options())


def _pays(planned: ReportedCell, against: ReportedCell | None) -> list[Entry]:
    """After how many steps compiling pays, and against which cell."""
    compile_s = planned.number("compile_s")
    if against is None or compile_s is None:
        return [count(None), word(None)]
    num = steps_to_pay(_step_s(against), _step_s(planned), compile_s)
    return [Entry("never", None) if num is None else count(num), word(named(against.row) or PLAIN)]


def _step_s(planned: ReportedCell) -> float:
    """The median step, running freely."""
    rate = planned.number("samples_per_s")
    assert rate
    return planned.cell.batch_size / rate
