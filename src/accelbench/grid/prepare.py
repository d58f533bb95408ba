"""Plans the cells of a sweep on this machine's data and environment."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelbench.data.arrays import how_to_prepare
from accelbench.data.manifest import check_arrays, read_manifest
from accelbench.errors import UserError
from accelbench.grid.estimate import estimate_s, known_walls
from accelbench.grid.fingerprint import fingerprint, git_state
from accelbench.grid.plan import Planned, plan
from accelbench.project import project_root
from accelbench.schema.cell import Cell
from accelbench.schema.conditions import Data


@dataclass(frozen=True)
class Prepared:
    """A sweep that is ready to run."""

    root: Path
    data: Data
    data_folder: Path
    environment: dict[str, Any]
    planned: list[Planned]
    estimates: list[float | None]


def data_of(cells: Sequence[Cell]) -> tuple[Data, Path]:
    """The one data set that `cells` use, and its folder.

    Raises:
        UserError: they use several, or theirs is not prepared.
    """
    names = sorted({cell.data.name for cell in cells})
    if len(names) != 1:
        raise UserError(f"data={','.join(names)}: a sweep has one data set; run one sweep for each")
    folder = project_root() / "data" / names[0]
    data = read_manifest(folder)
    if data.name != names[0]:
        raise UserError(f"data={names[0]}: {folder} holds {data.name}; {how_to_prepare(folder)}")
    return data, folder


def prepare(cells: Sequence[Cell]) -> Prepared:
    """Plans `cells` on this machine's data and environment.

    Raises:
        UserError: the cells use more than one data set, or theirs is not prepared.
    """
    root = project_root()
    data, folder = data_of(cells)
    check_arrays(folder)
    current = fingerprint()
    planned = plan(cells, data, current)
    walls = known_walls([root / "runs", root / "results"])
    return Prepared(
        root=root,
        data=data,
        data_folder=folder,
        environment={**current, "git": git_state(root)},
        planned=planned,
        estimates=[estimate_s(item, walls) for item in planned],
    )
