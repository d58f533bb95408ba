"""The module of each device, found by the device's word."""

import importlib

from accelbench.devices.base import DeviceReport
from accelbench.schema.vocab import Device


def look(device: Device) -> DeviceReport:
    """The report of `device` on this machine. Imports no framework and opens no device."""
    # Imported only now: a machine need not have the libraries that other devices' modules import.
    report: DeviceReport = importlib.import_module(f"accelbench.devices.{device}").look()
    return report
