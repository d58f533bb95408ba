"""A function for a separate process: TensorFlow on a divided CPU."""

from accelbench.engines.keras import engine
from accelbench.judging.verdict import judge
from engines.keras.cells import trained


def on_two_devices(digits):
    """Returns the verdict, the measurement, the weights of each replica, and their devices."""
    cell = trained(devices=2)
    backend = engine.Backend(cell)
    run = engine.Run(cell, digits, backend)
    measured = run.measure()
    weights = [backend.parts_of(weight) for weight in run.model.trainable_weights]
    devices = sorted({part.device for parts in weights for part in parts})
    return judge(cell, measured), measured, [[part.numpy() for part in parts] for parts in weights], devices
