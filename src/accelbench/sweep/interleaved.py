"""Chooses the order of processes so that drift affects all cells alike.

The processes of two compared cells run in random order. Trainings with several seeds are sorted by seed.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from accelbench.answers.cells import MIN_PROCESSES, Process
from accelbench.answers.comparison import RecordSet
from accelbench.errors import UserError, writing_errors
from accelbench.grid.plan import skip_reason
from accelbench.project import COMPARISON, RECORDS
from accelbench.schema.cell import MAX_SEED, Cell
from accelbench.schema.record import Record, RecordName, read_all
from accelbench.schema.serialize import digest, load, read_json, write_json
from accelbench.settings.config import SweepOptions, differing_options
from accelbench.settings.suites import check_cells


@dataclass(frozen=True)
class InterleavedRuns:
    """The processes of a comparison. They run in a random order: `repeat` of a process is its position."""

    seed: int
    # A cell per process, in the order of plan.json: the first cell's, then the second cell's.
    cells: list[Cell]
    is_second: list[bool]  # for each position, whether the second cell runs

    def sides(self, records: Iterable[Record]) -> tuple[list[Record], list[Record]]:
        """Returns the records of the first cell, and the records of the second cell."""
        sides: tuple[list[Record], list[Record]] = ([], [])
        for record in records:
            sides[self.is_second[record.cell.repeat]].append(record)
        return sides


def plan_runs(
    first: tuple[Cell, SweepOptions], second: tuple[Cell, SweepOptions], repeats: int | None, root: Path
) -> tuple[InterleavedRuns, SweepOptions]:
    """Returns the runs that compare two cells, and the options of their sweep.

    Each cell has `repeats` processes, by default `MIN_PROCESSES`. Their order depends on the cells and on the folder's
    name, so that the same command continues from its records. Raises UserError if `repeats` is less than 1 or too
    large, if the options of the cells differ, or if the folder has records of other cells.
    """
    num = MIN_PROCESSES if repeats is None else repeats
    if num < 1:
        raise UserError("--repeats: should be at least 1")
    check_cells(2 * num, "--repeats")
    options = first[1]
    if names := differing_options(options, second[1]):
        raise UserError(f"{names}: applies to both sides: give both the same value")
    folder = options.out or f"runs/{datetime.now():%Y-%m-%d_%H-%M-%S}-compare"
    # The folder's name is in the seed, so that the same two cells get another order in another folder.
    seed = int(digest([first[0].id, second[0].id, Path(folder).name])[:8], 16)
    runs = shuffled_runs(first[0], second[0], num, seed)
    ids = {cell.id for cell in runs.cells}
    if any(path.name.partition("-")[0] not in ids for path in (root / folder).glob(RECORDS)):
        raise UserError(f"out={folder}: has records of other cells: name another folder")
    return runs, replace(options, out=folder, words_of={**options.words_of, **second[1].words_of})


def why_pointless(sides: Sequence[Sequence[Cell]]) -> str | None:
    """Returns why this machine skips a whole side of the comparison, or None."""
    for letter, side in zip("AB", sides, strict=True):
        reasons = [skip_reason(cell) for cell in side]
        if all(reasons):
            return f"Can't tell which is faster. {letter} is skipped, so nothing is measured: {reasons[0]}"
    return None


def shuffled_runs(first: Cell, second: Cell, num_rounds: int, seed: int) -> InterleavedRuns:
    """Plans `num_rounds` rounds. Each runs both cells once, in random order. Equal seeds give equal orders."""
    generator = random.Random(seed)
    is_second = [choice for _ in range(num_rounds) for choice in generator.sample([False, True], 2)]
    cells = [
        replace(second if choice else first, repeat=position) for position, choice in enumerate(is_second)
    ]
    return InterleavedRuns(seed, sorted(cells, key=lambda cell: is_second[cell.repeat]), is_second)


def with_seeds(cells: Sequence[Cell], num: int) -> list[Cell]:
    """Returns each cell with `num` seeds. All cells run with one seed before any cell runs with the next seed.

    Raises UserError if a seed is too large, or if there are too many cells.
    """
    check_cells(num * len(cells), "--seeds")
    for cell in cells:
        if cell.seed + num > MAX_SEED:
            raise UserError(
                f"seed={cell.seed}: with --seeds {num}, a seed would be above {MAX_SEED}: use a lower seed"
            )
    return [replace(cell, seed=cell.seed + more) for more in range(num) for cell in cells]


def save_comparison(
    runs: InterleavedRuns, names: tuple[str, str], records: Sequence[Record], folder: Path
) -> None:
    """Writes compare.json: the name of each cell, and the names of its records. Raises WriteError."""
    sides = []
    for name, of_side in zip(names, runs.sides(records), strict=True):
        sides.append({"name": name, "records": [record.name for record in of_side]})
    with writing_errors(folder / COMPARISON):
        write_json(folder / COMPARISON, {"seed": runs.seed, "sides": sides})


def load_comparison(folder: Path) -> tuple[RecordSet, RecordSet]:
    """Returns the records of both cells of a comparison. Raises UserError if `folder` has no comparison."""
    path = folder / COMPARISON
    sets = []
    try:
        for side in read_json(path)["sides"]:
            readable = read_all([folder / f"{name}.json" for name in load(list[RecordName], side["records"])])
            processes = [Process.of(record) for record in readable]
            sets.append(RecordSet(name=str(side["name"]), processes=processes, notes=readable.problems()))
        first, second = sets
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = error if path.exists() else f"no {COMPARISON}"
        raise UserError(
            f"{folder}: not a folder of `compare --run` ({problem}): give two folders of records, A and B"
        ) from error
    return first, second
