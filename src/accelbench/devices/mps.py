"""The GPU of an Apple chip, which torch drives through Metal."""

import platform

from accelbench.devices.registry import DeviceReport, absent
from accelbench.schema.vocab import Device


def look(system: str = platform.system(), machine: str = platform.machine()) -> DeviceReport:
    """Returns the report on the Apple GPU. The arguments are results of the module `platform`."""
    if (system, machine) != ("Darwin", "arm64"):
        return absent(Device.mps, "no Mac with an Apple chip")
    return DeviceReport(device=Device.mps, present=True, name="Apple GPU", count=1)
