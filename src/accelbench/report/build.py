"""Builds the report: results in, a folder of pages, tables and pictures out."""

import io
import os
import statistics
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import matplotlib
from PIL import Image

from accelbench.answers.cells import MeasuredCell, process_rows
from accelbench.answers.process import NOT_RUN, UNREADABLE
from accelbench.answers.sentences import Answer
from accelbench.errors import UserError, WriteError
from accelbench.judging.costs import Cost, price_notes
from accelbench.judging.disturbed import DISTURBED
from accelbench.project import check_inside, shown
from accelbench.report import csv_file, render
from accelbench.report.extension import DPI, Picture, load
from accelbench.report.page import Page, compose
from accelbench.report.read import Sweep, newest, read_all
from accelbench.report.tables import device_scaling
from accelbench.schema.parallel import without_collection
from accelbench.schema.serialize import write_json
from accelbench.schema.vocab import UNEXPECTED, Device, Mode, Status


@without_collection()
def build(
    results: Path,
    out: Path,
    costs: Mapping[Device, Cost] = MappingProxyType({}),
    say: Callable[[str], object] = lambda note: None,
    notices: Sequence[str] = (),
    cache: Path | None = None,
    extension: Path | None = None,
    wanted: Collection[str] | None = None,
    check: Callable[[Sequence[Sweep]], object] = lambda sweeps: None,
) -> Path:
    """Writes the report into `out` and returns the page's path: index.html, report.md, headline.txt, tables and plots/.

    Everything is written to a temporary folder first: a failure leaves the earlier report. Other files in `out` stay.

    `results` is the records' folder, for `wanted` see `read.read_all`; `say` shows the user what the report leaves out;
    for `notices` and `cache` see `page.compose`; `extension` is the file of a module that adds to the report
    (`report.extension`), and `check` may refuse the sweeps.

    Raises UserError: there are no results, or none is readable, or the report can't be written; or `out` is a link.
    """
    for folder in (out, out / "plots"):
        check_inside(folder, out.parent)
    check(sweeps := read_all(results, costs, wanted))
    shown_part, shortened = newest(sweeps)
    try:
        added, problem = load(extension), []
    except UserError as error:  # a report without the extension is better than none
        added, problem = None, [str(error)]
    notices = [*notices, *shortened, *problem]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as made:
            with matplotlib.rc_context({"text.parse_math": False}):  # users' names may contain a $
                page = compose(sweeps, notices, cache, added, shown_part)
                rows = (cell.row for sweep in sweeps for cell in sweep.cells)
                page = replace(page, notes=[*page.notes, *price_notes(rows, costs)])
                _write(page, sweeps, Path(made))
            _replace(Path(made), out)
    except OSError as error:
        raise WriteError(shown(out), error) from error
    for note in [*problem, *page.notes]:
        say(note)
    return out / "index.html"


def _write(page: Page, sweeps: Sequence[Sweep], folder: Path) -> None:
    (folder / "plots").mkdir()
    for picture in page.pictures:
        _save(picture, folder / picture.path)
    (folder / "index.html").write_text(render.html(page, folder), encoding="utf-8")
    (folder / "headline.txt").write_text(render.headline(page), encoding="utf-8")
    (folder / "report.md").write_text(render.markdown(page), encoding="utf-8")
    csv_file.write((row for sweep in sweeps for row in device_scaling.rows(sweep)), folder / "cells.csv")
    csv_file.write(process_rows(cell for sweep in sweeps for cell in sweep.cells), folder / "processes.csv")
    write_json(folder / "metrics.json", metrics(sweeps, page.answers))


def _save(picture: Picture, path: Path) -> None:
    """Saves a PNG of 256 colours: enough for drawings, at a third of the size."""
    drawn = io.BytesIO()
    picture.figure.savefig(drawn, dpi=DPI)
    with Image.open(drawn) as image:
        few = image.convert("RGB").quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    path.parent.mkdir(exist_ok=True, parents=True)  # of a sweep in a folder of a folder
    few.save(path, optimize=True)


def metrics(sweeps: Sequence[Sweep], found: Sequence[Answer]) -> dict[str, Any]:
    """metrics.json: a few figures, of cells, and below `suites` what a change to any cell moves.

    A suite and each of its models have the geometric mean of the samples/s of their ok cells, by mode. What is unknown
    is left out.
    """
    outcomes = [cell.outcome for sweep in sweeps for cell in sweep.cells]
    figures: dict[str, Any] = {
        "num_cells_ok": outcomes.count(Status.ok),
        "num_cells_skipped": outcomes.count(Status.skipped),
        "num_cells_unexpected": sum(outcome in UNEXPECTED for outcome in outcomes),
        "num_cells_not_run": outcomes.count(NOT_RUN) + outcomes.count(UNREADABLE),
    }
    if num_disturbed := outcomes.count(DISTURBED):
        figures["num_cells_disturbed"] = num_disturbed
    if leads := [answer.lead for answer in found if answer.lead]:
        figures["share_of_answers_sure"] = _readable(sum(lead.is_known for lead in leads) / len(leads))
    for mode in Mode:
        if rates := [answer.fastest.speed or 0.0 for answer in found if answer.fastest.cell.mode == mode]:
            figures[f"best_{mode}_samples_per_s"] = _readable(max(rates))
    suites = {}
    for suite in dict.fromkeys(sweep.suite for sweep in sweeps):
        ok = [cell for sweep in sweeps if sweep.suite == suite for cell in sweep.cells if cell.is_ok]
        models = dict.fromkeys(cell.cell.model.name for cell in ok if cell.number("samples_per_s"))
        of_model = {name: _means([cell for cell in ok if cell.cell.model.name == name]) for name in models}
        if of_model:
            suites[suite] = {**_means(ok), "models": of_model}
    return {**figures, **({"suites": suites} if suites else {})}


def _means(cells: Sequence[MeasuredCell]) -> dict[str, float]:
    rates: dict[str, list[float]] = {}
    for cell in cells:
        if rate := cell.number("samples_per_s"):
            rates.setdefault(cell.cell.mode, []).append(rate)
    return {mode: _readable(statistics.geometric_mean(values)) for mode, values in rates.items()}


def _readable(value: float) -> float:
    return float(f"{value:.8g}")  # more digits than any of them is worth


def _replace(made: Path, out: Path) -> None:
    paths = list(made.iterdir())
    out.mkdir(exist_ok=True)
    if (out / "plots").exists():
        os.replace(out / "plots", made / "earlier_plots")  # os.replace can't overwrite a folder with contents
    for path in paths:
        os.replace(path, out / path.name)
