"""Counts the floating-point operations of one step from its network's layers.

By definition, as the Lightning engine counts them: what backends fuse, or compute in vain, is not looked at. Bytes and
operators are not known, since the graph is compiled as a whole.
"""

import math

import keras
from keras import layers

from accelbench.schema.work import Work

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

    In training: the forward pass, and the gradients of all weights and of all inputs but the images.

    Args:
        network: of layers one after another.
        batch_size: samples of the step.
        train: whether it trains or infers.

    Returns:
        The operations; None where a layer's are unknown, with its name.
    """
    uncounted = sorted({type(layer).__name__ for layer in network.layers if _multiplications(layer) is None})
    if uncounted:
        return Work(uncounted=uncounted)
    total, skipped = 0, 0
    first = True
    for layer in network.layers:
        of_input, of_state, of_first_state = _multiplications(layer) or (0, 0, 0)
        total += of_input + of_state
        # The images need no gradient, and neither does a recurrent layer's state before its first time step.
        skipped += of_first_state + (of_input if first else 0)
        first = first and not of_input
    return Work(flops=2 * batch_size * (3 * total - skipped if train else total))


def _multiplications(layer: keras.Layer) -> tuple[int, int, int] | None:
    """Multiply-adds for one sample: of the input, of the state, and of the first time step's state; None: unknown."""
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
