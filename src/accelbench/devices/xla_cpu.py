"""XLA on the CPU. It runs the same software as a TPU, on any machine for which torch_xla is built."""

import dataclasses

from accelbench.devices import cpu, packages
from accelbench.devices.registry import DeviceReport, absent
from accelbench.errors import how_to_install
from accelbench.schema.vocab import Device


def look() -> DeviceReport:
    """Returns the report on torch_xla's CPU device."""
    if (version := packages.version("torch_xla")) is None:
        how = f"{how_to_install('xla')} (for Linux on x86-64 only)"
        return absent(Device.xla_cpu, f"torch_xla is not installed: {how}")
    report = cpu.look()
    details = {"torch_xla": version, "usable_cores": report.details["usable_cores"]}
    return dataclasses.replace(report, device=Device.xla_cpu, name=f"XLA on {report.name}", details=details)
