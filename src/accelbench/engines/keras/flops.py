"""Observes the precision of a Keras network, and counts the operations of a step from its layers."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import keras
from keras import layers

from accelbench.engines.formats import word_for
from accelbench.measuring.checks import Products
from accelbench.schema.measurement import Work

WATCHED = (layers.Dense, layers.Conv2D, layers.RNN)


class Observer:
    """Records the number format in which each layer computes.

    It records the formats while Keras traces the network, because Python code does not run in the compiled graph.
    """

    def __init__(self, network: keras.Sequential) -> None:
        self.network = network
        self.layers = [layer for layer in network._flatten_layers() if isinstance(layer, WATCHED)]
        self.weights: keras.Variable = self.layers[0].weights[0]  # the weight matrix of the first layer
        self.computed: dict[str, str] = {}  # name of a layer -> format of its output
        for layer in self.layers:
            layer.call = self._watched(layer.name, layer.call)

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            output = call(*args, **kwargs)
            self.computed[name] = keras.backend.standardize_dtype(output.dtype)
            return output

        return watched

    def precision(self, most: str | None, *, tf32: bool) -> str:
        """Names the precision that ran. `most` is the format of most matrix products, or None if this is unknown."""
        computed = most or str(self.computed.get(self.layers[0].name))
        return word_for(keras.backend.standardize_dtype(self.weights.dtype), computed, tf32=tf32)

    def products(self, *, train: bool) -> Products:
        """Counts the layers for each recorded format.

        If `train`, lists the gradients as uncounted, because their formats are not recorded.
        """
        return Products(
            flops=Counter(self.computed[layer.name] for layer in self.layers),
            uncounted={"gradients"} if train else set(),
            of="forward matrix products (each layer counted as one)",
        )


def count(network: keras.Sequential, batch_size: int, *, train: bool) -> Work:
    """Computes the work of one step. If `train`, includes the gradients of all weights and of the layers' inputs.

    Does not include the gradient of the images, because a step does not compute it.
    """
    total, skipped, first = 0, 0, True
    for layer in network.layers:
        of_input, of_state, of_first_state = _multiplications(layer)
        total += of_input + of_state
        # A step computes no gradient of the images, and no gradient of the first state of a recurrent layer.
        skipped += of_first_state + (of_input if first else 0)
        first = first and not of_input
    return Work(flops=2 * batch_size * (3 * total - skipped if train else total))


def _multiplications(layer: keras.Layer) -> tuple[int, int, int]:
    """Returns how many multiply-adds a sample needs: (with the layer's input, with its states, with its first state).

    Only recurrent layers have states. The second number includes the third.
    """
    if isinstance(layer, layers.Dense | layers.Conv2D):
        positions = math.prod(layer.output.shape[1:-1])
        return positions * math.prod(layer.kernel.shape), 0, 0
    if isinstance(layer, layers.SimpleRNN | layers.LSTM):
        num_times = layer.input.shape[1]
        of_state = math.prod(layer.cell.recurrent_kernel.shape)
        return num_times * math.prod(layer.cell.kernel.shape), num_times * of_state, of_state
    return 0, 0, 0
