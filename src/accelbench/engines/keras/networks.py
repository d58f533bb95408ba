"""Builds the networks of `engines/networks.py` in Keras, with losses, metrics and optimisers."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import keras
from keras import layers, losses, ops, optimizers

from accelbench.engines.images import Shape, channels_first
from accelbench.engines.networks import layers_of
from accelbench.measuring.checks import FORMATS
from accelbench.schema.cell import Cell, ModelSpec, Precision
from accelbench.schema.measurement import Work

POLICIES = {
    word: formats.computed if formats.stored == formats.computed else f"mixed_{formats.computed}"
    for word, formats in FORMATS.items()
}
# With Keras' defaults, as in the studies, except for the learning rate. AdamW has PyTorch's defaults: no study used it.
OPTIMIZERS: dict[str, Callable[..., keras.Optimizer]] = {
    "adam": optimizers.Adam,
    "adamw": partial(optimizers.AdamW, weight_decay=0.01, epsilon=1e-8),
    "sgd": optimizers.SGD,
}


def recurrent(kind: Any, inputs: int, units: int, dropout: float, returns_all: bool) -> keras.Layer:
    """Makes a recurrent layer. Its dropout uses one mask per sample for all time steps."""
    # TensorFlow can't draw an orthogonal matrix in bf16. `network_of` sets the weights of such a network.
    is_bf16 = keras.config.dtype_policy().variable_dtype == "bfloat16"
    initializer = "zeros" if is_bf16 else "orthogonal"
    return kind(units, recurrent_initializer=initializer, dropout=dropout, return_sequences=returns_all)


LAYERS: Mapping[str, Callable[..., keras.Layer]] = {
    "channel": lambda height, width: layers.Reshape((height, width, 1)),
    "convolution": lambda channels, padding: layers.Conv2D(channels, 3, padding=padding),
    "dense": layers.Dense,
    "dropout": layers.Dropout,
    "flatten": layers.Flatten,
    "lstm": partial(recurrent, layers.LSTM),
    "normalisation": lambda channels: layers.BatchNormalization(),
    "pool": layers.MaxPooling2D,
    "relu": layers.ReLU,
    "reshape": lambda *shape: layers.Reshape(shape),
    "rnn": partial(recurrent, layers.SimpleRNN),
}


def set_policy(precision: Precision) -> None:
    """Sets Keras' global dtype policy, which affects layers that are built later.

    The policy must be global. Otherwise Keras would not scale the loss in `fp16_mixed`.
    """
    keras.config.set_image_data_format("channels_last")  # ~/.keras/keras.json may have another value
    keras.config.set_epsilon(1e-7)
    # `floatx` is the dtype of losses and metrics.
    keras.config.set_floatx("float64" if precision == Precision.fp64 else "float32")
    keras.config.set_dtype_policy(POLICIES[precision])


def build(model: ModelSpec, shape: Shape, num_classes: int) -> keras.Sequential:
    """Builds one of accelbench's networks for images of `shape`, channels last. Raises the errors of `layers_of`."""
    stack = layers_of(model, channels_first(shape), num_classes, LAYERS)
    return keras.Sequential([keras.Input(shape), *stack], name=model.definition)


def network_of(cell: Cell, shape: Shape, num_classes: int) -> keras.Sequential:
    """Builds the cell's network in its precision. The weights are the same in all precisions, except for rounding."""
    networks = []
    drawn = cell.precision if FORMATS[cell.precision].stored == "float32" else Precision.fp32
    for precision in dict.fromkeys((drawn, cell.precision)):
        set_policy(precision)
        keras.utils.set_random_seed(cell.seed)
        networks.append(build(cell.model, shape, num_classes))
    network = networks[-1]
    network.set_weights(networks[0].get_weights())
    return network


def model_of(network: keras.Sequential, dtype: str) -> keras.Sequential:
    """Wraps the network so that it accepts images of `dtype`. The wrapper scales uint8 images to floats from 0 to 1."""
    scale = [layers.Rescaling(1 / 255)] if dtype == "uint8" else []
    return keras.Sequential([keras.Input(network.input_shape[1:], dtype=dtype), *scale, network])


def loss_of(spec: ModelSpec, network: keras.Sequential, dtype: str) -> Any:
    """Returns the loss function of the network.

    The autoencoder uses the mean squared error. Networks with one logit use the binary cross-entropy. All other
    networks use the cross-entropy.
    """
    if spec.is_own("autoencoder"):
        return scaled_squared_error if dtype == "uint8" else losses.MeanSquaredError()
    if network.output_shape[-1] == 1:
        return losses.BinaryCrossentropy(from_logits=True)
    return losses.SparseCategoricalCrossentropy(from_logits=True)


def metrics_of(spec: ModelSpec, network: keras.Sequential) -> list[Any]:
    """Returns the accuracy if the network classifies. Otherwise returns an empty list."""
    if spec.is_own("autoencoder"):
        return []
    return [
        right_sign
        if network.output_shape[-1] == 1
        else keras.metrics.SparseCategoricalAccuracy(name="accuracy")
    ]


def scaled_squared_error(images: Any, output: Any) -> Any:
    """Returns the mean squared error between the output and `images`, which are integers from 0 to 255."""
    return losses.mean_squared_error(images / 255, output)


def right_sign(labels: Any, logits: Any) -> Any:
    """Returns for each logit whether it is right. It must be above 0 for label 1, and at most 0 for label 0."""
    return ops.equal(ops.cast(labels, "bool"), ops.reshape(logits, ops.shape(labels)) > 0)


right_sign.__name__ = "accuracy"


def layers_with_products(network: keras.Sequential) -> list[keras.Layer]:
    """The layers that compute matrix products."""
    return [layer for layer in network.layers if isinstance(layer, layers.Dense | layers.Conv2D | layers.RNN)]


def formats_of(network: keras.Sequential) -> Counter[str]:
    """Counts the layers that compute matrix products in each format, as Keras infers it for the layer's output."""
    return Counter(
        keras.backend.standardize_dtype(layer.output.dtype) for layer in layers_with_products(network)
    )


def count(network: keras.Sequential, batch_size: int, *, train: bool) -> Work:
    """Computes the work of one step. If `train`, includes the gradients of all weights and of the layers' inputs.

    Does not include the gradient of the images, because a step does not compute it.
    """
    total = skipped = 0
    for index, layer in enumerate(layers_with_products(network)):
        is_recurrent = isinstance(layer, layers.RNN)
        weights = layer.cell if is_recurrent else layer
        # Time steps or pixels.
        num = layer.input.shape[1] if is_recurrent else math.prod(layer.output.shape[1:-1])
        of_input = num * math.prod(weights.kernel.shape)
        total += of_input
        if index == 0:
            skipped += of_input
        if is_recurrent:
            of_state = math.prod(weights.recurrent_kernel.shape)
            total += num * of_state
            skipped += of_state  # the first state has no gradient
    return Work(flops=2 * batch_size * (3 * total - skipped if train else total))
