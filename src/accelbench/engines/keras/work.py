"""Counts the floating-point operations of one step from its network's layers.

The operations are those of the layers' definitions, as in the Lightning engine, whatever a backend fuses or computes in
vain. Bytes and operators are unknown, since the graph is compiled as a whole.
"""

import math
from collections.abc import Mapping

import keras
from keras import layers

from accelbench.measuring.promises import Products
from accelbench.schema.measurement import Work

WITHOUT_FLOPS = (
    layers.InputLayer,
    layers.Flatten,
    layers.Reshape,
    layers.Dropout,
    layers.MaxPooling2D,
    layers.BatchNormalization,
)


def count(network: keras.Sequential, batch_size: int, *, train: bool) -> Work:
    """The work of one step.

    In training: the forward pass, the gradients of all weights, and those of all inputs of layers except the images.

    Args:
        network: a sequence of layers.
        batch_size: samples of the step.
        train: whether it trains or infers.

    Returns:
        The operations; None, with the names of the layers, if those of a layer are unknown.
    """
    uncounted = sorted({type(layer).__name__ for layer in network.layers if _multiplications(layer) is None})
    if uncounted:
        return Work(uncounted=uncounted)
    total, skipped = 0, 0
    first = True
    for layer in network.layers:
        of_input, of_state, of_first_state = _multiplications(layer) or (0, 0, 0)
        total += of_input + of_state
        # No gradient is computed for the images, nor for a recurrent layer's state before the first time step.
        skipped += of_first_state + (of_input if first else 0)
        first = first and not of_input
    return Work(flops=2 * batch_size * (3 * total - skipped if train else total))


def products(network: keras.Sequential, formats: Mapping[str, str], *, train: bool) -> Products:
    """The products of the forward pass for a sample, by what each layer was seen to compute in.

    Args:
        network: a sequence of layers.
        formats: a layer's name -> the format.
        train: whether there are other products too, which are not seen: those of gradients.
    """
    found = Products(uncounted={"gradients"} if train else set(), of="forward matrix products")
    for layer in network.layers:
        num = _multiplications(layer)
        if num is None or (any(num) and layer.name not in formats):
            found.uncounted.add(layer.name)
        elif any(num):
            name = formats[layer.name]
            found.flops[name] = found.flops.get(name, 0) + 2 * sum(num[:2])
    return found


def _multiplications(layer: keras.Layer) -> tuple[int, int, int] | None:
    """Multiply-adds per sample: with the input, with the state, and with the first state alone; None if unknown."""
    if isinstance(layer, WITHOUT_FLOPS):
        return 0, 0, 0
    if isinstance(layer, layers.Dense | layers.Conv2D):
        positions = math.prod(layer.output.shape[1:-1])
        return positions * math.prod(layer.kernel.shape), 0, 0
    if isinstance(layer, layers.SimpleRNN | layers.LSTM):
        num_times = layer.input.shape[1]
        of_state = math.prod(layer.cell.recurrent_kernel.shape)
        return num_times * math.prod(layer.cell.kernel.shape), num_times * of_state, of_state
    return None
