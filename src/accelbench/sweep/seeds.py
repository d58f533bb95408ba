"""The trainings to a target that a question needs: seeds of each setting, and those of its reference."""

from collections.abc import Sequence
from dataclasses import replace

from accelbench.answers.arrivals import reference_of
from accelbench.errors import UserError
from accelbench.schema.cell import MAX_SEED, Cell
from accelbench.settings.suites import check_cells


def with_seeds(cells: Sequence[Cell], num: int) -> list[Cell]:
    """So many seeds of each cell, and twice as many of its reference, as MLPerf's reference points have.

    Of each seed, all settings run before those of the next one; what only the references need comes last.

    Raises UserError: a seed is too large, or there are too many.
    """
    for cell in cells:
        if cell.seed + 2 * num > MAX_SEED:
            raise UserError(f"seed={cell.seed}: with --seeds {num}, seeds end at {MAX_SEED}")
    references = list(map(reference_of, cells))
    check_cells(num * (len(cells) + 2 * len(references)), f"--seeds {num}")
    asked = [replace(cell, seed=cell.seed + more) for more in range(num) for cell in cells]
    further = [replace(cell, seed=cell.seed + more) for more in range(2 * num) for cell in references]
    return list({cell.id: cell for cell in [*asked, *further]}.values())
