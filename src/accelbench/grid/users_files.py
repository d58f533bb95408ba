"""The user's files that the cells of a sweep depend on: which of them change while the sweep runs."""

from collections.abc import Iterable
from pathlib import Path

from accelbench.errors import UserError
from accelbench.grid.fingerprint import source_files
from accelbench.schema.cell import Cell

Stamp = tuple[int, int, int]  # time of the last change, size, inode


class UsersFiles:
    """The files of `cells` at the time when this is made. Their contents are not read."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        sources = {source for cell in cells for source in _sources(cell)}
        self._before = {source: _stamps(*source) for source in sources}

    def changed(self, cell: Cell) -> list[Path]:
        """The files of `cell` that were written, added or removed since: their contents may be the same."""
        found: set[Path] = set()
        for source in _sources(cell):
            found |= {path for path, _ in self._before[source].items() ^ _stamps(*source).items()}
        return sorted(found)


def _sources(cell: Cell) -> set[tuple[str, str]]:
    weights = {("model.weights", cell.model.weights_file)} if cell.model.weights_file else set()
    return {*cell.own_code.items(), *weights}


def _stamps(flag: str, value: str) -> dict[Path, Stamp]:
    try:
        paths = [Path(value)] if flag == "model.weights" else source_files(flag, value).values()
    except UserError:  # the whole package is gone
        return {}
    found = {}
    for path in paths:
        try:
            stat = path.stat()
        except OSError:
            continue
        found[path] = stat.st_mtime_ns, stat.st_size, stat.st_ino
    return found
