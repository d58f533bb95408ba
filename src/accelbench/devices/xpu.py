"""Intel GPUs, driven by the build of torch for XPU."""

from accelbench.devices import packages
from accelbench.devices.proc import pci_devices
from accelbench.devices.registry import DeviceReport, absent
from accelbench.schema.vocab import Device

INTEL, DISPLAY = "0x8086", "0x03"  # PCI vendor; beginning of the PCI class of display and 3D controllers
HOW = "install torch with pip from PyTorch's index for XPU (whl/xpu)"


def look() -> DeviceReport:
    """Reports on Intel GPUs."""
    gpus = [device for device in pci_devices() if device.vendor == INTEL and device.kind.startswith(DISPLAY)]
    if not gpus:
        return absent(Device.xpu, "no Intel GPU on the PCI bus")
    version = packages.torch_built_for("xpu")
    if version is None:
        return absent(Device.xpu, f"the installed torch is built without XPU: {HOW}")
    return DeviceReport(device=Device.xpu, name="Intel GPU", count=len(gpus), details={"torch_xpu": version})
