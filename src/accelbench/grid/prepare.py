"""Plans the cells of a sweep on this machine's data and environment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelbench.data.arrays import how_to_prepare
from accelbench.data.manifest import check_arrays, read_manifest
from accelbench.errors import UserError
from accelbench.grid.fingerprint import fingerprint, git_state, source_digest
from accelbench.grid.plan import Planned, plan
from accelbench.project import Workplace
from accelbench.schema.cell import Cell
from accelbench.schema.conditions import Data
from accelbench.schema.plan_file import WantedCell
from accelbench.schema.vocab import MODULE, Engine


@dataclass(frozen=True)
class Prepared:
    """A sweep that is ready to run.

    Attributes:
        place: where the sweep works.
        data: the data set of all cells.
        data_folder: where its arrays are.
        environments: what the records of each engine's cells keep of machine, versions, code and git.
        planned: the cells in the order in which they run.
    """

    place: Workplace
    data: Data
    data_folder: Path
    environments: Mapping[Engine, Mapping[str, Any]]
    planned: list[Planned]


def data_name(cells: Sequence[Cell]) -> str:
    """The one data set that `cells` use.

    Raises:
        UserError: they use several data sets.
    """
    names = sorted({cell.data.name for cell in cells})
    if len(names) != 1:
        raise UserError(f"data={','.join(names)}: a sweep has one data set; run one sweep for each")
    return names[0]


def data_of(cells: Sequence[Cell], place: Workplace) -> tuple[Data, Path]:
    """The one data set that `cells` use, and its folder.

    Raises:
        UserError: they use several data sets, or theirs is not prepared.
    """
    name = data_name(cells)
    folder = place.data / name
    if name == MODULE:
        return _of_module(cells), folder
    data = read_manifest(folder)
    if data.name != name:
        raise UserError(f"data={name}: {folder} holds {data.name}; {how_to_prepare(folder)}")
    return data, folder


def _of_module(cells: Sequence[Cell]) -> Data:
    """The data that the user's DataModule, or a LightningModule itself, makes when a cell runs.

    The digest leaves out the arguments, which are part of each cell's settings.
    """
    sources = {
        ("data.target", cell.data.target) if cell.data.target else ("model.target", cell.model.definition)
        for cell in cells
    }
    if len(sources) > 1:
        shown = ",".join(sorted(path for _, path in sources))
        raise UserError(f"data.target={shown}: a sweep has one data set; run one sweep for each")
    ((flag, path),) = sources
    return Data(name=MODULE, digest=source_digest(flag, path), source=f"{path}, which nobody verified", stand_in=False)


def prepare(cells: Sequence[Cell], place: Workplace, earlier: Sequence[WantedCell] = ()) -> Prepared:
    """Plans `cells` on this machine's data and environment.

    Args:
        cells: the grid.
        place: where the data set is.
        earlier: cells that the folder's plan names already; they keep their labels.

    Raises:
        UserError: the cells use several data sets, or theirs is not prepared.
    """
    source_digest.cache_clear()  # a notebook plans again and again, and the user's code changes meanwhile
    data, folder = data_of(cells, place)
    if data.name != MODULE:
        check_arrays(folder)
    fingerprints = {engine: fingerprint(engine) for engine in {cell.engine for cell in cells}}
    planned = plan(cells, data, fingerprints, earlier)
    git = git_state(place.root)
    return Prepared(
        place=place,
        data=data,
        data_folder=folder,
        environments={engine: {**found, "git": git} for engine, found in fingerprints.items()},
        planned=planned,
    )
