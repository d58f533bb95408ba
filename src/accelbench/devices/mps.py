"""The GPU of an Apple chip, which torch drives through Metal."""

import platform

from accelbench.devices.registry import DeviceReport, absent
from accelbench.schema.vocab import Device


def look() -> DeviceReport:
    """Returns the report on the Apple GPU."""
    if (platform.system(), platform.machine()) != ("Darwin", "arm64"):
        return absent(Device.mps, "no Mac with an Apple chip")
    return DeviceReport(device=Device.mps, name="Apple GPU", count=1)
