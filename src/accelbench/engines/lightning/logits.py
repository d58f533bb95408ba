"""Whether a network gives what its task can use."""

import torch

from accelbench.cell import Cell
from accelbench.errors import UserError
from accelbench.vocab import Mode


def check_logits(output: object, cell: Cell, num_classes: int) -> None:
    """Raises a UserError where a network gives no logits (batch, classes).

    Args:
        output: what it gave.
        cell: which network, and whether it is trained.
        num_classes: of the labels: in training there is a logit for each, or one alone for two.
    """
    if not isinstance(output, torch.Tensor) or output.dim() != 2:
        kind = tuple(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
        raise UserError(f"model={cell.model.name}: its output should be logits (batch, classes), not {kind}")
    num = output.shape[1]
    if cell.mode == Mode.train and num != num_classes and (num, num_classes) != (1, 2):
        raise UserError(
            f"model={cell.model.name}: it gives {num} logits for {num_classes} classes "
            "(model.num_classes for random images, else the data set's)"
        )
