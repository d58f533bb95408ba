"""Builds the report of sweeps: writes a folder of pages, tables and pictures."""

import base64
import hashlib
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from textwrap import indent
from urllib.parse import quote

import matplotlib
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from accelbench.answers import headline
from accelbench.answers.gaps import span
from accelbench.answers.words import DEVICES
from accelbench.errors import UserError, writing_errors
from accelbench.judging.row import warnings_of
from accelbench.presentation import counted
from accelbench.project import check_inside, shown
from accelbench.report.contents import Page, compose
from accelbench.report.export import csv_text, tables
from accelbench.report.extension import DPI, load
from accelbench.report.overview import picture_of
from accelbench.report.read import NO_COSTS, Costs, Sweep, cells_in
from accelbench.schema.cell import Status
from accelbench.schema.serialize import write_json

_BASE = Environment(
    loader=PackageLoader("accelbench.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_BASE.filters["anchor"] = lambda title: re.sub(r"\W+", "-", title.lower()).strip("-")
_BASE.globals["counted"] = counted
_BASE.globals["warnings_of"] = warnings_of
_BASE.filters["span"] = span
HEADLINE_WIDTH = 80  # columns of headline.txt
FIRST_SCRIPTS = ("make.js", "picture.js")  # these scripts run before the rest of the page is loaded
SCRIPTS = ("state.js", "charts.js", "card.js", "pair.js", "table.js", "viewer.js")


def html(page: Page, folder: Path) -> str:
    """Makes one HTML file that embeds the pictures. The pictures are already saved in `folder`."""
    pictures = {
        picture.path: "data:image/png;base64,"
        + base64.b64encode((folder / picture.path).read_bytes()).decode()
        for picture in page.pictures
    }
    first, scripts = (
        [Markup(_BASE.get_template(name).render()) for name in names] for names in (FIRST_SCRIPTS, SCRIPTS)
    )
    policy = _policy([*first, *scripts])
    parts = {"page": page, "pictures": pictures, "first_scripts": first, "scripts": scripts, "policy": policy}
    parts |= {"data": picture_of(page.jobs, page.folder), "devices": DEVICES, "meanings": headline.MEANINGS}
    return _BASE.get_template("index.html").render(parts)


def _policy(scripts: Sequence[str]) -> str:
    """Makes the content security policy: only these scripts run, no text is evaluated as code, nothing is loaded."""
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def markdown(page: Page, answers: str) -> str:
    """Makes the short page in markdown, with relative links to pictures. `answers` is the text of headline.txt."""
    environment = _BASE.overlay(autoescape=False, finalize=_escape)  # escapes all text that a template prints
    parts = {
        "answers": Markup(indent(answers, "    ")),
        "links": {picture.path: quote(picture.path) for picture in page.pictures},
    }
    return environment.get_template("report.md").render(page=page, **parts)


def _escape(value: object) -> str:
    """Escapes the text, so that markdown shows it unchanged. This holds in a table's cells, too."""
    if isinstance(value, Markup):
        return value
    text = str(value).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*\[\]|])", r"\\\1", " ".join(text.split()))


def build(
    sweeps: Sequence[Sweep],
    results: Path,
    out: Path,
    costs: Costs = NO_COSTS,
    say: Callable[[str], object] = lambda note: None,
    extension: Path | None = None,
) -> Path:
    """Writes index.html, report.md, headline.txt, tables and plots/ into `out`. Returns the path of index.html.

    All files are written to a temporary folder first. So a failure keeps the earlier report. Other files in `out` stay.

    `sweeps` were read from the folder `results`. `costs` are the prices with which they were read. `say` shows the user
    what the report leaves out. `extension` is the file of a module that
    adds to the report (see `report.extension`).

    Raises UserError: the report can't be written, or `out` is a link.
    """
    for folder in (out, out / "plots"):
        check_inside(folder, out.parent)
    problems: list[str] = []
    added = None
    try:
        added = load(extension)
    except UserError as error:  # a report without the extension is better than none
        problems.append(str(error))
    with writing_errors(shown(out)):
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as made:
            with matplotlib.rc_context({"text.parse_math": False}):  # users' names may contain a $
                page = compose(sweeps, problems, added, shlex.quote(shown(results)), costs)
                _write(page, sweeps, Path(made))
            _replace(Path(made), out)
    for note in [*problems, *page.notes]:
        say(note)
    return out / "index.html"


def _write(page: Page, sweeps: Sequence[Sweep], folder: Path) -> None:
    (folder / "plots").mkdir()
    for picture in page.pictures:
        # A sweep may lie in a folder of a folder.
        (folder / picture.path).parent.mkdir(exist_ok=True, parents=True)
        picture.figure.savefig(folder / picture.path, dpi=DPI)
    (folder / "index.html").write_text(html(page, folder), encoding="utf-8")
    answers = "".join(f"{line}\n" for line in headline.summary(page.jobs, cells_in(sweeps), HEADLINE_WIDTH))
    (folder / "headline.txt").write_text(answers, encoding="utf-8")
    (folder / "report.md").write_text(markdown(page, answers), encoding="utf-8")
    for name, rows in tables(sweeps).items():
        (folder / name).write_text(csv_text(rows), encoding="utf-8", newline="")
    write_json(folder / "metrics.json", metrics(page))


def metrics(page: Page) -> dict[str, float]:
    """Computes metrics.json: how many jobs there are, how many got faster, their gains, and the cells by outcome.

    `failed` is the number of cells that are neither ok nor skipped. If no job got faster, the gains are left out.
    """
    ratios = [job.gain.ratio for job in page.jobs if job.best]
    figures: dict[str, float] = {"jobs": len(page.jobs), "faster": len(ratios)}
    if ratios:
        figures |= {"max_gain": _readable(max(ratios)), "median_gain": _readable(median(ratios))}
    ok = page.counts.get(Status.ok, 0)
    skipped = page.counts.get(Status.skipped, 0)
    failed = sum(page.counts.values()) - ok - skipped
    return figures | {"ok": ok, "in_doubt": len(page.doubts), "failed": failed, "skipped": skipped}


def _readable(value: float) -> float:
    return float(f"{value:.3g}")


def _replace(made: Path, out: Path) -> None:
    paths = list(made.iterdir())
    out.mkdir(exist_ok=True)
    if (out / "plots").exists():
        os.replace(out / "plots", made / "earlier_plots")  # os.replace can't overwrite a folder with contents
    for path in paths:
        os.replace(path, out / path.name)
