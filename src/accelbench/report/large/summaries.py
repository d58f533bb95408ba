"""Reads folders of very many records: a line of cells.csv and a few figures of each, and nothing else, are held.

Ten thousand whole records take a gigabyte of memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from accelbench.answers.process import device_key
from accelbench.answers.words import data_text, engine_text, model_text, options_text
from accelbench.errors import RefusedError, UserError
from accelbench.judging.costs import Cost
from accelbench.report import csv_file
from accelbench.report.read import ReportedCell
from accelbench.report.tables import device_scaling
from accelbench.schema import plan_file
from accelbench.schema.ceilings import Ceilings, ceilings_in
from accelbench.schema.cell import CHOSEN_SETTINGS
from accelbench.schema.parallel import mapped
from accelbench.schema.plan_file import PlanEntry, WantedCell
from accelbench.schema.record import read_all
from accelbench.schema.serialize import group_digest
from accelbench.schema.text import clean
from accelbench.schema.vocab import Device, Engine

AT_ONCE = 20_000  # cells whose plans are held at a time
FIGURES = ("samples_per_s", "latency_p50_ms", "energy_j_per_sample")


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What is held of a planned cell.

    Attributes:
        folder: of its sweep.
        name: of its record.
        started_at: None if it has not run.
        line: of cells.csv, without the scaling efficiency.
        cell_key: equal for the repeats and seeds of a cell on one machine with one software; None unless it is ok.
        workload_key: equal for the cells that did the same thing on one machine.
        about: what the aggregates say of the cell: machine, model, mode, ...
        figures: `FIGURES`, as far as they are known.
        scaling: see `device_scaling.scaling_keys`.
        device_key, ceilings: see `report.keys.device_key`; None without ceilings.
        problem: why its record can't be read.
    """

    folder: Path
    name: str
    started_at: str | None
    line: str
    cell_key: str | None = None
    workload_key: str | None = None
    about: tuple[str, ...] = ()
    figures: tuple[float | None, ...] = ()
    scaling: device_scaling.ScalingKeys | None = None
    device_key: str | None = None
    ceilings: Ceilings | None = None
    problem: str | None = None


ABOUT = ("suite", "machine", "model", "mode", "data", "device", "precision", "batch", "options", "engine", "protocol")


@dataclass(frozen=True, kw_only=True)
class Summaries:
    """All planned cells of a folder.

    Attributes:
        columns: of cells.csv.
        found: in the order of the folders and their plans.
        notes: a line for each folder and record that can't be read.
        ceilings: the highest ones that any record has, by `device_key`.
    """

    columns: list[str]
    found: list[Summary]
    notes: list[str]
    ceilings: Mapping[str, Ceilings]

    def lines(self) -> Iterator[str]:
        """The lines of cells.csv, with its heading."""
        yield csv_file.line([*self.columns, device_scaling.COLUMN]) + "\n"
        rates = {
            (each.folder, each.scaling.own): each.figures[0] for each in self.found if each.scaling and each.scaling.own
        }
        for each in self.found:
            single = rates.get((each.folder, each.scaling.on_one)) if each.scaling and each.scaling.on_one else None
            rate, num = each.figures[0] if each.figures else None, each.scaling.devices if each.scaling else 1
            yield f"{each.line},{rate / single / num if rate and single else ''}\n"


def summarise_all(results: Path, costs: Mapping[Device, Cost]) -> Summaries:
    """Summaries of every planned cell in `results` and the folders below it.

    Raises:
        UserError: there is no sweep that can be read.
    """
    found: list[Summary] = []
    notes: list[str] = []
    for entries in _batches(results, notes):
        summaries = list(mapped(lambda item: _summary_of_entry(*item, costs), entries))
        unreadable = {folder for (folder, _), each in zip(entries, summaries, strict=True) if each is None}
        found += [each for each in summaries if each is not None and each.folder not in unreadable]
        for folder in sorted(unreadable):
            found += [_summary(folder, wanted, costs, None) for wanted in plan_file.plan_of_records(folder).cells]
    if not found:
        raise UserError(notes[0] if notes else f"{results}: no sweep there; run one first, or name another folder")
    ceilings = _judge_again(found, costs)
    notes += [each.problem for each in found if each.problem]
    any_cell = plan_file.cells_in(found[0].folder)[0]  # every row has the same columns
    columns = list(_reported(found[0].folder, any_cell, costs, None).row)
    return Summaries(columns=columns, found=found, notes=notes, ceilings=ceilings)


def _batches(results: Path, notes: list[str]) -> Iterator[list[tuple[Path, PlanEntry | WantedCell]]]:
    """The planned cells with their folders, about `AT_ONCE` at a time; those of a folder are not divided."""
    cells: list[tuple[Path, PlanEntry | WantedCell]] = []
    for folder, refused in plan_file.sweep_folders(results).items():
        try:
            if refused is not None:
                raise refused
            cells += [(folder, each) for each in _entries(folder)]
        except UserError as error:
            notes.append(clean(str(error)))
        if len(cells) >= AT_ONCE:
            yield cells
            cells = []
    if cells:
        yield cells


def _entries(folder: Path) -> Sequence[PlanEntry | WantedCell]:
    """The entries of the folder's plan, which the processes that read the records check; or the cells of its records.

    Raises:
        RefusedError: the system does not read the plan now.
        UserError: neither the plan nor any record is readable.
    """
    try:
        return plan_file.read_entries(folder)
    except RefusedError:
        raise
    except UserError:
        return plan_file.plan_of_records(folder).cells


def _judge_again(found: list[Summary], costs: Mapping[Device, Cost]) -> dict[str, Ceilings]:
    """As in a report of few records, each is judged by the highest ceilings that any record has of its device.

    Returns:
        These ceilings, by `device_key`.
    """
    best_of: dict[str, Ceilings] = {}
    for each in found:
        if each.device_key and each.ceilings:
            known = best_of.get(each.device_key)
            best_of[each.device_key] = known.joined(each.ceilings) if known else each.ceilings
    lower = [at for at, each in enumerate(found) if each.device_key in best_of and _is_lower(each, best_of)]
    wanted = {at: _wanted_again(found[at]) for at in lower}

    def again(at: int) -> tuple[int, Summary]:
        folder, cell = wanted[at]
        return at, _summary(folder, cell, costs, best_of[found[at].device_key or ""])

    for at, summary in list(mapped(again, lower)):
        found[at] = summary
    return best_of


def _is_lower(summary: Summary, best_of: Mapping[str, Ceilings]) -> bool:
    """Whether the best ceilings are others than the record's own."""
    own = summary.ceilings
    return own is None or _speeds(best_of[summary.device_key or ""]) != _speeds(own)


def _speeds(ceilings: Ceilings) -> Ceilings:
    return replace(ceilings, how=dict.fromkeys(ceilings.flops_per_s, ""), seconds=0.0, measured_at="", probed=[])


def _wanted_again(summary: Summary) -> tuple[Path, WantedCell]:
    record = next(iter(read_all([summary.folder / f"{summary.name}.json"])))
    return summary.folder, WantedCell(record.cell, summary.name, record.label)


def _summary_of_entry(folder: Path, entry: PlanEntry | WantedCell, costs: Mapping[Device, Cost]) -> Summary | None:
    """The summary of a planned cell; None if the entry can't be read, and with it the folder's plan."""
    try:
        wanted = entry if isinstance(entry, WantedCell) else entry.read()
    except UserError:
        return None
    return _summary(folder, wanted, costs, None)


def _reported(
    folder: Path, wanted: WantedCell, costs: Mapping[Device, Cost], ceilings: Ceilings | None
) -> ReportedCell:
    readable = read_all([folder / f"{wanted.record_name}.json"])
    record = next(iter(readable), None)
    if record is not None and ceilings is not None:
        record = replace(record, environment={**record.environment, "ceilings": ceilings.to_json()})
    problem = next(iter(readable.problems()), None)
    return ReportedCell(
        cell=wanted.cell, name=wanted.record_name, label=wanted.label, record=record, problem=problem, costs=costs
    )


def _summary(folder: Path, wanted: WantedCell, costs: Mapping[Device, Cost], ceilings: Ceilings | None) -> Summary:
    reported = _reported(folder, wanted, costs, ceilings)
    row, record = reported.row, reported.record
    own = ceilings_in(record.environment) if record else None
    summary = Summary(
        folder=folder,
        name=reported.name,
        started_at=record.started_at if record else None,
        line=csv_file.line(list(row.values())),
        device_key=device_key(record) if record and own else None,
        ceilings=own,
        problem=reported.problem,
    )
    if not reported.is_ok or reported.number("samples_per_s") is None:
        return summary
    options = options_text(row | {"engine": Engine.lightning}) or ""
    about = (
        *(reported.cell.suite, reported.machine_name, model_text(reported), reported.cell.mode),
        *(data_text(reported), reported.cell.device, reported.cell.precision, str(reported.cell.batch_size)),
        *(options, engine_text(row), reported.cell.protocol),
    )
    workload = [reported.all_but(*CHOSEN_SETTINGS), reported.place_key]
    return replace(
        summary,
        cell_key=group_digest(reported.measured_key),
        workload_key=group_digest(workload),
        about=tuple(map(str, about)),
        figures=tuple(reported.number(name) for name in FIGURES),
        scaling=device_scaling.scaling_keys(reported),
    )
