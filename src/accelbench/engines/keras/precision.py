"""Precision: Keras' dtype policy for each word, and the word for what really ran."""

from collections.abc import Callable
from typing import Any

import keras
from keras import layers

from accelbench.errors import UnsupportedError
from accelbench.schema.vocab import Precision

POLICIES = {
    Precision.fp16: "float16",
    Precision.bf16: "bfloat16",
    Precision.fp32: "float32",
    Precision.tf32: "float32",
    Precision.fp64: "float64",
    Precision.fp16_mixed: "mixed_float16",
    Precision.bf16_mixed: "mixed_bfloat16",
}
WATCHED = (layers.Dense, layers.Conv2D, layers.RNN)


def set_policy(precision: Precision) -> None:
    """Has every layer made from here on compute in `precision`.

    It is the global policy, since the loss of mixed_float16 is scaled with no other.
    """
    keras.config.set_image_data_format("channels_last")  # ~/.keras/keras.json may say otherwise
    keras.config.set_epsilon(1e-7)
    # What losses and metrics are computed in.
    keras.config.set_floatx("float64" if precision == Precision.fp64 else "float32")
    keras.config.set_dtype_policy(POLICIES[precision])


class Observer:
    """Watches which dtypes a network's matrix work really uses, as it is traced: what is traced is what runs.

    Raises:
        UnsupportedError: it has no layer with a matrix.
    """

    def __init__(self, network: keras.Model) -> None:
        found = [layer for layer in network._flatten_layers() if isinstance(layer, WATCHED)]
        if not found:
            raise UnsupportedError("the network has no dense, convolutional or recurrent layer to watch")
        self.layer = found[0]
        self.computed: str | None = None
        self._call: Callable[..., Any] = self.layer.call
        self.layer.call = self._seen

    def _seen(self, *args: Any, **kwargs: Any) -> Any:
        output = self._call(*args, **kwargs)
        self.computed = keras.backend.standardize_dtype(output.dtype)
        return output

    @property
    def weights(self) -> keras.Variable:
        """The watched layer's matrix."""
        return self.layer.trainable_weights[0]

    def precision(self, *, tf32: bool) -> str:
        """The word for what ran, or the dtypes where there is no word for them.

        Args:
            tf32: whether fp32's matrix work runs in TF32.
        """
        stored, computed = keras.backend.standardize_dtype(self.weights.dtype), self.computed
        if stored == computed == "float32":
            return Precision.tf32 if tf32 else Precision.fp32
        for word, policy in POLICIES.items():
            name = policy.removeprefix("mixed_")
            if (stored, computed) == ("float32" if name != policy else name, name):
                return word
        return f"weights {stored}, computed in {computed}"
