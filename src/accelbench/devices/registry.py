"""Every device, by its word."""

from collections.abc import Callable

from accelbench.devices import cpu, gpu, tpu, xla_cpu
from accelbench.devices.base import DeviceReport
from accelbench.vocab import Device

_LOOK: dict[Device, Callable[[], DeviceReport]] = {
    Device.cpu: cpu.look,
    Device.gpu: gpu.look,
    Device.tpu: tpu.look,
    Device.xla_cpu: xla_cpu.look,
}


def look(device: Device) -> DeviceReport:
    """What this machine has of `device`, and if nothing, why not. Imports no framework and opens no device."""
    return _LOOK[device]()
