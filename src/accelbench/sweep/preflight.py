"""Checks each network of a sweep once before anything is measured, in a process of its own."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from accelbench.isolation.hosts import Hosts
from accelbench.isolation.messages import Outcome
from accelbench.schema.cell import Cell
from accelbench.schema.serialize import canonical_json, plain
from accelbench.schema.vocab import Device, Library, Precision, Status

# Of accelbench's own networks, the tests know that they run.
CHECKED = frozenset(Library) - {Library.accelbench}


class Preflight:
    """What the checks of some cells found."""

    def __init__(self, hosts: Hosts, data_folder: Path) -> None:
        self._hosts, self._data_folder = hosts, data_folder
        self._failures: dict[tuple[str, bool, int], Outcome] = {}

    def check(self, cells: Iterable[Cell]) -> int:
        """Checks one of all cells with the same network, batches and mode; returns how many networks were checked.

        It is the one with the smallest batch. If that fails, the next larger batch is checked too: batch normalisation
        can't train on a single sample. And if a cell in fp32 on the CPU fails, one that runs elsewhere is checked too:
        the engine is not as sure of that.
        """
        batches: dict[str, dict[bool, dict[int, Cell]]] = defaultdict(lambda: defaultdict(dict))
        for cell in cells:
            if cell.model.library in CHECKED:
                batches[_key(cell)][_is_elsewhere(cell)].setdefault(cell.batch_size, cell)
        for groups in batches.values():
            for elsewhere in sorted(groups):  # what is right in fp32 on the CPU is not checked again
                if not self._fails(groups[elsewhere]):
                    break
        return len(batches)

    def _fails(self, by_size: dict[int, Cell]) -> bool:
        for num, size in enumerate(sorted(by_size)):
            outcome = self._hosts.check(by_size[size], self._data_folder)
            # Only an exception is a verdict: running out of time or memory says nothing.
            if outcome.status != Status.failed:
                return num > 0
            self._failures[_key(by_size[size]), _is_elsewhere(by_size[size]), size] = replace(outcome, user_error=True)
        return True

    def failure(self, cell: Cell) -> Outcome | None:
        """How the check of the cell's network and batch failed; None if it did not, or if there was none."""
        return self._failures.get((_key(cell), _is_elsewhere(cell), cell.batch_size))


def _key(cell: Cell) -> str:
    return canonical_json([cell.engine, plain(cell.model), plain(cell.data), cell.mode])


def _is_elsewhere(cell: Cell) -> bool:
    """Whether the cell does not run where it is checked: in fp32 on the CPU."""
    return (cell.device, cell.precision) != (Device.cpu, Precision.fp32)
