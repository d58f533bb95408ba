"""Two cells measured in turns: fresh processes of both, in an order drawn at random, and what became of them."""

import dataclasses
import json
import random
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from accelbench.compare.record_sets import Process, Side
from accelbench.compare.verdict import MIN_PROCESSES
from accelbench.errors import UserError
from accelbench.project import COMPARISON, RECORDS
from accelbench.schema.cell import Cell
from accelbench.schema.record import Record, read
from accelbench.schema.serialize import write_json
from accelbench.settings import config
from accelbench.settings.config import SweepOptions


@dataclass(frozen=True)
class Turns:
    """The order of a comparison.

    Attributes:
        seed: of the order.
        cells: in that order, which their `repeat` counts.
        is_second: for each, whether it is the second side's.
    """

    seed: int
    cells: list[Cell]
    is_second: list[bool]


def plan(
    first: tuple[Cell, SweepOptions], second: tuple[Cell, SweepOptions], rounds: str | None, root: Path
) -> tuple[Turns, SweepOptions]:
    """The turns that two sides take, and the options of their sweep, whose folder is named for what it is.

    Args:
        first: the first side's cell, and what was asked for beside it.
        second: the same, of the second.
        rounds: fresh processes a side, as written; None for as few as can be told apart.
        root: the project's folder.

    Raises:
        UserError: that is no number, the two ask for different sweeps, or their folder holds records already.
    """
    if rounds is not None and (not rounds.isdecimal() or int(rounds) < 1):
        raise UserError(f"--repeats {rounds}: should be a whole number, at least 1")
    if names := config.differing_options(first[1], second[1]):
        raise UserError(f"{names}: holds for both sides: give it one value")
    options = first[1]
    folder = options.out or f"runs/{datetime.now():%Y-%m-%d_%H-%M-%S}-compare"
    if any((root / folder).glob(RECORDS)):
        raise UserError(f"out={folder}: holds records already, which would not take turns with new ones: name another")
    drawn = draw(first[0], second[0], int(rounds) if rounds else MIN_PROCESSES, secrets.randbits(32))
    return drawn, dataclasses.replace(options, out=folder)


def draw(first: Cell, second: Cell, rounds: int, seed: int) -> Turns:
    """Draws the order: each round has both cells once, in either order, so that drift hits both alike.

    Args:
        first: the cell of the first side.
        second: of the second; it may be the same.
        rounds: fresh processes a side.
        seed: equal seeds draw equal orders.
    """
    drawn = random.Random(seed)
    is_second = [which for _ in range(rounds) for which in drawn.sample([False, True], 2)]
    cells = [dataclasses.replace(second if which else first, repeat=turn) for turn, which in enumerate(is_second)]
    return Turns(seed, cells, is_second)


def save(turns: Turns, names: tuple[str, str], records: Sequence[Record], folder: Path) -> None:
    """Writes `folder`/compare.json: which record is whose.

    Args:
        turns: what was run.
        names: each side in the user's words.
        records: what became of it.
        folder: where the records are.
    """
    seconds = {cell.id for cell, which in zip(turns.cells, turns.is_second, strict=True) if which}
    sides = [[record.name for record in records if (record.cell.id in seconds) == which] for which in (False, True)]
    listed = [{"name": name, "records": side} for name, side in zip(names, sides, strict=True)]
    write_json(folder / COMPARISON, {"seed": turns.seed, "sides": listed})


def load(folder: Path) -> tuple[Side, Side]:
    """The sides of the comparison that was run into `folder`.

    Raises:
        UserError: none was, or its records are not readable.
    """
    path = folder / COMPARISON
    try:
        sides = json.loads(path.read_text())["sides"]
        first, second = (
            Side(name=side["name"], processes=[Process.of(read(folder / f"{name}.json")) for name in side["records"]])
            for side in sides
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{folder}: not the folder of a `compare --run` ({error}): name two sides") from error
    return first, second
