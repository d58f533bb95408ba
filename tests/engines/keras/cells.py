"""Cells of the Keras engine, for tests and for the scripts that they start."""

from accelbench.schema.cell import KerasSettings
from accelbench.schema.vocab import Engine, Mode, Protocol
from accelbench.schema.workload import ModelSpec
from fakes import make_cell

CARRIED = ("mode", "protocol", "model", "seed", "epochs", "batch_size")


def keras_cell(keras=None, **changes):
    return make_cell(**{"engine": Engine.keras, "keras": KerasSettings(**(keras or {})), **changes})


def trained(**changes):
    """A fit with a short last batch, which two devices share too."""
    model = ModelSpec(name="mlp", args={"widths": [16], "dropout": 0.0}, optimizer="adam", learning_rate=1e-3)
    return keras_cell(mode=Mode.train, protocol=Protocol.fit, model=model, epochs=2, batch_size=32, **changes)
