"""A cell's network with weights that its seed draws in fp32, and the fp32 output that it is compared with."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from accelbench.engines.formats import FORMATS
from accelbench.engines.keras import networks
from accelbench.engines.keras.precision import set_policy
from accelbench.engines.sources import Shape
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Precision


def network_of(cell: Cell, shape: Shape, num_classes: int) -> keras.Sequential:
    """The cell's network under its policy. In every precision a seed gives the same weights, apart from rounding."""
    if FORMATS[cell.precision].stored == "float32":
        return _drawn(cell, cell.precision, shape, num_classes)
    weights = _drawn(cell, Precision.fp32, shape, num_classes).get_weights()
    network = _drawn(cell, cell.precision, shape, num_classes)
    network.set_weights(weights)
    return network


def reference(
    cell: Cell, batches: Sequence[NDArray[Any]], shape: Shape, num_classes: int, *, other: bool = False
) -> list[NDArray[Any]]:
    """The outputs of the cell's network, built again in fp32, for each of `batches`, images as its feed gives them.

    With `other`, its weights are others, which differ a little from its own.
    """
    network = _drawn(cell, Precision.fp32, shape, num_classes)
    if other:
        drawn = np.random.default_rng()
        network.set_weights([each + 0.1 * drawn.random(each.shape, np.float32) for each in network.get_weights()])
    inputs = [images / np.float32(255) if images.dtype == np.uint8 else images.astype(np.float32) for images in batches]
    return [np.asarray(network(floats, training=False)) for floats in inputs]


def _drawn(cell: Cell, precision: Precision, shape: Shape, num_classes: int) -> keras.Sequential:
    set_policy(precision)
    keras.utils.set_random_seed(cell.seed)
    return networks.build(cell.model, shape, num_classes)
