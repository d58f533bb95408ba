"""The contents of the report's page, whatever the format."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from accelbench.answers.process import NOT_RUN, UNREADABLE
from accelbench.answers.ranking import Answer, answers
from accelbench.data.manifest import read_manifest
from accelbench.errors import DataError
from accelbench.judging.disturbed import DISTURBED
from accelbench.report.extension import Addition, Extension
from accelbench.report.noise import noise
from accelbench.report.picture import Picture
from accelbench.report.pictures import samples
from accelbench.report.pictures.race import race as race_picture
from accelbench.report.questions import Question, questions
from accelbench.report.read import Sweep
from accelbench.report.tables import (
    accuracy_by_device,
    all_cells,
    best,
    device_scaling,
    not_ok,
    pairs,
    race,
    recommendation,
)
from accelbench.report.tables.all_cells import Cells
from accelbench.report.tables.table import Table
from accelbench.schema.record import DEVICE_MEASUREMENTS, hardware
from accelbench.schema.selfcheck import read_selfcheck
from accelbench.schema.serialize import group_key
from accelbench.schema.vocab import RANDOM, Device, Status

MAX_ANSWERS, MAX_NOTES = 200, 50


@dataclass(frozen=True, kw_only=True)
class Section:
    """One suite's part of the page.

    Attributes:
        caveats: sentences to read before comparing with the suite's study.
    """

    sweep: Sweep
    caveats: list[str]
    tables: list[Table]
    pictures: list[Picture]


@dataclass(frozen=True, kw_only=True)
class Page:
    """The whole report.

    Attributes:
        notices: warnings, before any number.
        stand_ins: name -> a sentence, for each data set of which a stand-in was measured.
        noise: how many processes other programs disturbed; empty if it is few.
        worth: for each machine that checked itself, how large a difference has to be to be told there.
        num_machines: on which the records were measured.
        answers: the fastest setting for each model and mode.
        questions: what users ask, each with a sentence and a picture.
        notes: sentences about records that are not shown.
        counts: number of cells by outcome, without zeros.
        devices: each device that was asked for, with its name or the reason why it was not measured.
        when: the first and the last start, UTC; None if nothing has run.
        first: the tables of the first screen: what to use, which devices were there, what is missing.
        environments: (what, description) of the machine, the versions and the code.
        samples: a look at each data set that was measured.
        without_samples: a sentence for each data set without such a look, with the reason.
        details: the tables of the best cells by each criterion and of the failures.
        cells: every cell, for the page's table and charts.
        added: the tables that the project's extension adds at the end.
    """

    notices: list[str]
    stand_ins: dict[str, str]
    noise: str
    worth: list[str]
    num_machines: int
    answers: list[Answer]
    questions: list[Question]
    notes: list[str]
    counts: dict[str, int]
    devices: list[str]
    when: tuple[str, str] | None
    first: list[Table]
    environments: list[tuple[str, str]]
    sections: list[Section]
    samples: list[Picture]
    without_samples: list[str]
    details: list[Table]
    cells: Cells
    added: list[Table]

    @property
    def compared(self) -> list[Answer]:
        """The answers that chose between several settings."""
        return [answer for answer in self.answers if answer.others]

    @property
    def alone(self) -> list[Answer]:
        """The answers about a single setting."""
        return [answer for answer in self.answers if not answer.others]

    @property
    def pictures(self) -> list[Picture]:
        """All pictures, in the page's order."""
        asked = [picture for question in self.questions for picture in question.pictures]
        return [*asked, *(picture for section in self.sections for picture in section.pictures), *self.samples]


def compose(
    sweeps: Sequence[Sweep],
    notices: Sequence[str] = (),
    data: Path | None = None,
    cache: Path | None = None,
    extension: Extension | None = None,
    shown: Sequence[Sweep] | None = None,
) -> Page:
    """The page on `sweeps`, with `notices` at its top.

    Args:
        sweeps: what was measured.
        notices: sentences for the top of the page.
        data: the folder of the prepared data sets, for a look at them; None for none.
        cache: the folder of selfcheck.json; None for none.
        extension: adds to the sections and the page; None for nothing.
        shown: the sweeps that are shown cell by cell; None for all. The answers are of all.
    """
    shown = sweeps if shown is None else shown
    sheets, without = _samples(sweeps, data) if data is not None else ([], [])
    found = answers(cell for sweep in sweeps for cell in sweep.cells)
    outcomes = Counter(process.outcome for sweep in sweeps for process in sweep.planned)  # as metrics.json counts
    ran = [record for sweep in sweeps for record in sweep.records if record.status != Status.skipped]
    starts = [record.started_at for record in ran]
    return Page(
        notices=list(notices),
        stand_ins=stand_ins(sweeps),
        noise=noise(sweeps),
        worth=_worth(sweeps, cache) if cache is not None else [],
        num_machines=len({hardware(each.environment) for each in ran if "machine" in each.environment}),
        answers=found[:MAX_ANSWERS],
        questions=questions(sweeps, found),
        notes=_notes(sweeps),
        devices=recommendation.device_texts(sweeps),
        counts={word: outcomes[word] for word in [*Status, DISTURBED, UNREADABLE, NOT_RUN] if outcomes[word]},
        when=(_minute(min(starts)), _minute(max(starts))) if starts else None,
        first=_known(recommendation.table(found[:MAX_ANSWERS]), recommendation.devices(sweeps), not_ok.reasons(sweeps)),
        environments=list(_environments(sweeps)),
        sections=[_section(sweep, extension) for sweep in shown if sweep.cells or sweep.race],
        samples=sheets,
        without_samples=without,
        details=_known(best.table(found[:MAX_ANSWERS]), not_ok.failures(sweeps)),
        cells=all_cells.cells(shown),
        added=extension.of_page() if extension else [],
    )


def _notes(sweeps: Sequence[Sweep]) -> list[str]:
    """Of very many notes the first: thousands would hide everything else."""
    notes = [note for sweep in sweeps for note in sweep.notes]
    more = len(notes) - MAX_NOTES
    return [*notes[:MAX_NOTES], *([f"and {more} more"] if more > 0 else [])]


def _known(*tables: Table | None) -> list[Table]:
    return [table for table in tables if table]


def _worth(sweeps: Sequence[Sweep], cache: Path) -> list[str]:
    """What `accelbench selfcheck` found on the machines of the records; their names too, if there are several."""
    machines = {
        group_key(machine): machine
        for sweep in sweeps
        for record in sweep.records
        if record.cell.device == Device.cpu and (machine := record.environment.get("machine"))
    }
    found = {key: check for key, machine in machines.items() if (check := read_selfcheck(cache, machine)) is not None}
    return [
        check.sentence if len(machines) == 1 else f"{machines[key].get('cpu_name')}: {check.sentence}"
        for key, check in found.items()
    ]


def stand_ins(sweeps: Sequence[Sweep]) -> dict[str, str]:
    """Data set -> a sentence, for each that is only a stand-in for the one that it is named after."""
    measured = [record for sweep in sweeps for record in sweep.records if record.measurement]
    data = [record.data for record in measured if record.data and record.data.stand_in]
    found: dict[str, str] = {}
    for (name, source), num in Counter((found.name, found.source) for found in data).items():
        sentence = (
            f"NOT {name.upper()}: a stand-in ({source}) was measured in {num:,} {'cell' if num == 1 else 'cells'}. "
            f"Their times, accuracies and losses are not {name.upper()}'s and cannot be compared with published ones."
        )
        found[name] = f"{found[name]} {sentence}" if name in found else sentence
    return found


def _samples(sweeps: Sequence[Sweep], folder: Path) -> tuple[list[Picture], list[str]]:
    """A picture of each data set that was measured, and a sentence for each that is not in `folder` any more."""
    measured = [record for sweep in sweeps for record in sweep.records if record.measurement and record.data]
    sheets, without = [], []
    for data in {record.data.digest: record.data for record in measured if record.data}.values():
        if data.name == RANDOM or Path(data.name).name != data.name:
            continue
        title = f"{data.name}: the first training images of each class"
        warning = f"NOT {data.name.upper()}: a stand-in" if data.stand_in else ""
        try:
            is_there = read_manifest(folder / data.name).digest == data.digest
            figure = samples.sheet(folder / data.name, title, warning) if is_there else None
        except (DataError, OSError, ValueError):
            figure = None
        if figure is None:
            without.append(f"No samples of {data.name}: the data set that was measured is not in the data folder.")
        else:
            alt = " ".join(filter(None, (title, warning)))
            sheets.append(Picture(path=f"plots/samples_{data.name}.png", alt=alt, figure=figure))
    return sheets, without


def _section(sweep: Sweep, extension: Extension | None) -> Section:
    warning = ", ".join(notice.partition(" (")[0] for notice in stand_ins([sweep]).values())
    added = extension.of_suite(sweep, warning) if extension else Addition()
    tables = _known(
        race.table(sweep),
        *added.tables,
        pairs.of_sweep(sweep.cells),
        accuracy_by_device.table(sweep),
        device_scaling.table(sweep),
    )
    search = "The search: every process, and when cells dropped out"
    raced = race_picture(sweep.race, f"{search}, {sweep.suite}", warning) if sweep.race else None
    drawn = [*added.pictures, *([("race", search, raced)] if raced else [])]
    pictures = [
        Picture(
            path=f"plots/{kind}_{sweep.folder}.png",
            alt=f"{what}, {sweep.suite}; the tables hold its values",
            figure=figure,
        )
        for kind, what, figure in drawn
    ]
    return Section(sweep=sweep, caveats=added.caveats, tables=tables, pictures=pictures)


def _environments(sweeps: Sequence[Sweep]) -> Iterator[tuple[str, str]]:
    """Each distinct machine, set of versions, code and git state; with its number of cells if there are several."""
    environments = [
        {
            f"code of {record.cell.engine}" if what == "code" else what: value
            for what, value in record.environment.items()
            if what not in DEVICE_MEASUREMENTS
        }
        for sweep in sweeps
        for record in sweep.records
    ]
    for what in dict.fromkeys(key for environment in environments for key in environment):
        values = [environment[what] for environment in environments if what in environment]
        nums = Counter(group_key(value) for value in values)
        for text, num in nums.items():
            value = next(value for value in values if group_key(value) == text)
            yield what + (f" ({num} cells)" if len(nums) > 1 else ""), _flat(value)


def _minute(started_at: str) -> str:
    return f"{datetime.fromisoformat(started_at):%Y-%m-%d %H:%M}"


def _flat(value: object) -> str:
    if isinstance(value, dict):
        known = {key.replace("_", " "): each for key, each in value.items() if each not in (None, [], {})}
        return ", ".join(f"{key} {_flat(each)}" for key, each in known.items()) or "none set"
    if isinstance(value, list):
        return "; ".join(_flat(each) for each in value)
    return str(value)
