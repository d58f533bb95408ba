"""A cell's network with the weights that its seed gives in fp32, and their output on the CPU."""

from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from accelbench.engines.keras import networks
from accelbench.engines.keras.networks import Shape
from accelbench.engines.keras.precision import POLICIES, set_policy
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Precision

STORED_AS_FP32 = frozenset(word for word, policy in POLICIES.items() if policy == "float32" or "mixed" in policy)


def network_of(cell: Cell, shape: Shape, num_classes: int) -> keras.Sequential:
    """The cell's network under its policy; a seed draws the same weights, but for rounding, in every precision."""
    if cell.precision in STORED_AS_FP32:
        return _drawn(cell, cell.precision, shape, num_classes)
    weights = _drawn(cell, Precision.fp32, shape, num_classes).get_weights()
    network = _drawn(cell, cell.precision, shape, num_classes)
    network.set_weights(weights)
    return network


def reference(cell: Cell, images: NDArray[Any], shape: Shape, num_classes: int) -> NDArray[Any]:
    """What the cell's network, built anew in fp32, makes of `images`, as its feed has them."""
    network = _drawn(cell, Precision.fp32, shape, num_classes)
    inputs = images / np.float32(255) if images.dtype == np.uint8 else images.astype(np.float32)
    return np.asarray(network(inputs, training=False))


def _drawn(cell: Cell, precision: Precision, shape: Shape, num_classes: int) -> keras.Sequential:
    set_policy(precision)
    keras.utils.set_random_seed(cell.seed)
    return networks.build(cell.model, shape, num_classes)
