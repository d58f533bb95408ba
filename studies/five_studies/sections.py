"""The five studies' additions to the report: their published numbers beside ours, and their pictures redrawn."""

from collections import Counter
from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure

from accelbench.presentation import counted
from accelbench.report.extension import Addition
from accelbench.report.read import Sweep
from accelbench.report.table import Table
from accelbench.schema.cell import Device
from five_studies import batches, beside, devices, frames, pictures, power, published, speedups, steps, times, training
from five_studies.comparison import METRICS, published_for_sweep
from five_studies.headline import headline as headline
from five_studies.headline import tiles as tiles

# File name of a picture, its description, and the picture (None if there is nothing to draw).
Drawn = Iterator[tuple[str, str, Figure | None]]

# Study 000's figures by family of networks: name of the file, description, and the value of a cell.
FAMILIES: Sequence[tuple[str, str, pictures.Value | Device]] = (
    ("families", "Throughput by family (samples/s)", lambda each: each.speed),
    ("utilisation", "Utilisation of the device by family (%)", steps.utilisation_percent),
    ("memory", "Memory of the device by family (MB)", lambda each: each.number("peak_device_mb")),
    ("power", "Power of the GPU by family (W)", lambda each: each.number("gpu_power_w")),
    ("copying", "Share of copying by family (%)", steps.communication_percent),
    ("speedups", "Speed-up over the CPU by family (x)", Device.cpu),
    ("gpu_over_tpu", "Speed-up over the TPU by family (x)", Device.tpu),
)


def of_suite(sweep: Sweep, warning: str) -> Addition:
    """The study's part of a suite's section. `warning` is printed on each picture; it may be empty."""
    found = beside.pairs(sweep)
    main = beside.table(found)
    tables = (
        frames.table(sweep),
        training.by_size(sweep),
        *(times.table(sweep, mode) for mode in METRICS),
        speedups.headlines(sweep),
        speedups.like_for_like(sweep),
        speedups.table(sweep),
        batches.table(sweep),
        *(steps.table(sweep, metric) for metric in steps.METRICS),
        steps.load_table(sweep),
        power.table(sweep),
        power.num_steps_table(sweep),
        training.quality(sweep),
        devices.table(sweep),
    )
    known = [table for table in tables if table]
    why = _why_not_measured(sweep)
    if why:
        main = published.table(published_for_sweep(sweep))
    main = main or (known.pop(0) if sweep.study and known else None)
    said = beside.sentence(sweep, found)
    return Addition(
        sentence=f"{said.removesuffix(' Here: not measured.')} {why}".strip() if why else said,
        main=main,
        caveats=published.caveats(sweep.study),
        tables=known,
        pictures=[(name, what, figure) for name, what, figure in _drawn(sweep, warning) if figure],
    )


def _why_not_measured(sweep: Sweep) -> str:
    """Why a study's sweep has no number. Empty if it has a number, or if it belongs to no study."""
    if not sweep.study or any(each.is_ok for each in sweep.cells):
        return ""
    reasons = Counter(str(each.row["reason"] or each.outcome).partition(" (")[0] for each in sweep.cells)
    said = ", ".join(f"{reason} ({counted(num, 'cell')})" for reason, num in reasons.most_common())
    return f"Not measured here, because {said or 'no suite in this report repeats it'}."


def unmeasured(sweeps: Sequence[Sweep]) -> list[Sweep]:
    """An empty sweep for each study that no sweep repeats. Empty if no study is repeated."""
    repeated = {sweep.study for sweep in sweeps if sweep.study}
    left = [number for number in published.studies() if number not in repeated] if repeated else []
    names = {number: f"Study {number}: {published.studies()[number]['name']}" for number in left}
    return [Sweep(folder=f"study_{number}", suite="", title=name, study=number) for number, name in names.items()]


def of_page() -> list[Table]:
    """The tables at the end of the page: the errors of the studies."""
    return [published.known_errors_table()]


def _drawn(sweep: Sweep, warning: str) -> Drawn:
    learning = "Accuracy and loss per epoch"
    yield "curves", learning, pictures.curves(sweep, f"{learning}, {sweep.suite}", warning)
    what = "Comparison of inference"
    yield "inference_comparison", what, frames.comparison(sweep, f"{what}, {sweep.suite}", warning)
    for name, what, value in FAMILIES if sweep.study == "000" else ():
        yield name, what, pictures.families(sweep.cells, value, f"{what}, {sweep.suite}", warning)
