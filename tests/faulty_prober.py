"""The prober of the faulty engine: it finds the same on every device, with its process as the number of threads."""

import os
from collections.abc import Iterable

from accelbench.schema.ceilings import Ceilings
from accelbench.schema.vocab import Device, Precision
from fakes import make_ceilings


def run(device: Device, precisions: Iterable[Precision]) -> Ceilings:
    """Ceilings of the device."""
    return make_ceilings(device=device.value, threads=os.getpid())
