"""The prober of the faulty engine: it finds the same on every device, with its process as the number of threads."""

import os

from accelbench.schema.ceilings import Ceilings
from accelbench.schema.vocab import Device
from fakes import make_ceilings


def run(device: Device) -> Ceilings:
    """Ceilings of the device."""
    return make_ceilings(device=device.value, threads=os.getpid())
