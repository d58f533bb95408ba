"""The Lightning engine's probe, of one precision and with a moment for each kernel, since the whole one takes 20 s."""

from accelbench.engines.lightning.backends import backend_for
from accelbench.engines.lightning.probe import probe
from accelbench.schema.ceilings import Ceilings
from accelbench.schema.vocab import Device, Precision


def run(device: Device) -> Ceilings:
    """The ceilings of `device`."""
    return probe(backend_for(device), (Precision.fp32,), seconds_each=0.001)
