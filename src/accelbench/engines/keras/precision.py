"""Precision: Keras' dtype policy for each word, and which precision really ran."""

from collections.abc import Callable
from typing import Any

import keras
from keras import layers

from accelbench.engines.formats import FORMATS, word_for
from accelbench.errors import UnsupportedError
from accelbench.schema.vocab import Precision

POLICIES = {
    word: formats.computed if formats.stored == formats.computed else f"mixed_{formats.computed}"
    for word, formats in FORMATS.items()
}
WATCHED = (layers.Dense, layers.Conv2D, layers.RNN)


def set_policy(precision: Precision) -> None:
    """Makes every layer that is built from now on compute in `precision`.

    It sets the global policy: Keras scales the loss of mixed_float16 only then.
    """
    keras.config.set_image_data_format("channels_last")  # ~/.keras/keras.json may say otherwise
    keras.config.set_epsilon(1e-7)
    # The dtype of losses and metrics.
    keras.config.set_floatx("float64" if precision == Precision.fp64 else "float32")
    keras.config.set_dtype_policy(POLICIES[precision])


class Observer:
    """Watches in which format each layer of a network computes while it is traced: what is traced is what runs.

    Raises:
        UnsupportedError: the network has no layer with a weight matrix.
    """

    def __init__(self, network: keras.Model) -> None:
        self.layers = [layer for layer in network._flatten_layers() if isinstance(layer, WATCHED)]
        if not self.layers:
            raise UnsupportedError("the network has no dense, convolutional or recurrent layer to watch")
        self.computed: dict[str, str] = {}  # a layer's name -> the format of its output
        for layer in self.layers:
            layer.call = self._watched(layer.name, layer.call)

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def seen(*args: Any, **kwargs: Any) -> Any:
            output = call(*args, **kwargs)
            self.computed[name] = keras.backend.standardize_dtype(output.dtype)
            return output

        return seen

    @property
    def weights(self) -> keras.Variable:
        """The weight matrix of the first watched layer."""
        return self.layers[0].weights[0]

    def precision(self, most: str | None, *, tf32: bool) -> str:
        """The word for the precision that ran, or its dtypes if there is no word for them.

        Args:
            most: the format of most matrix products; None if the size of none is known.
            tf32: whether fp32 matrix products run in TF32.
        """
        computed = most or str(self.computed.get(self.layers[0].name))
        return word_for(keras.backend.standardize_dtype(self.weights.dtype), computed, tf32=tf32)
