"""Detects a Cloud TPU of this machine in the same way as torch_xla.

If torch_tpu is installed, cells use the TPU through torch_tpu, otherwise through torch_xla.
"""

from collections import Counter

from accelbench.devices import packages, proc
from accelbench.devices.registry import DeviceReport, absent
from accelbench.schema.cell import Device

# PCI ids and cores of a chip: torch_xla 2.9, `torch_xla/_internal/tpu.py`, `num_available_chips` and
# `num_logical_cores_per_chip`. Names: JAX, `jax/_src/hardware_utils.py`.
GOOGLE_PCI_VENDOR_ID = "0x1ae0"
CHIPS = {
    "0x0027": "TPU v2 or v3",
    "0x0056": "TPU plc",
    "0x005e": "TPU v4",
    "0x0062": "TPU v5p",
    "0x0063": "TPU v5e",
    "0x006f": "TPU v6e",
    "0x0076": "TPU7x",
}
CORES_PER_CHIP = {"TPU v2 or v3": 2}
TORCH_TPU = "torch_tpu"
HOW = "pip install torch_tpu (for torch 2.11 or newer), or pip install 'torch_xla[tpu]'"


def look() -> DeviceReport:
    """Returns the report on the TPU."""
    chips = find_chips()
    if not chips:
        return absent(Device.tpu, "no TPU chip (none on the PCI bus)")
    # The first name is that of chips up to v4, the second of those from v5e on.
    if not any(proc.ROOT.glob("dev/accel*")) and not any(proc.ROOT.glob("dev/vfio/[0-9]*")):
        return absent(
            Device.tpu, "the TPU has no /dev/accel* or /dev/vfio/*: run the container with --privileged"
        )
    name, num_chips = Counter(chips).most_common(1)[0]
    torch_tpu = packages.version(TORCH_TPU)
    if torch_tpu is None and packages.folder("torch_xla") is None:
        return absent(Device.tpu, f"neither torch_tpu nor torch_xla is installed: {HOW}")
    count = num_chips * CORES_PER_CHIP.get(name, 1)
    details = {"chips": str(num_chips)} | ({TORCH_TPU: torch_tpu} if torch_tpu else {})
    return DeviceReport(device=Device.tpu, name=name, count=count, details=details)


def find_chips() -> list[str]:
    """Returns the names of the TPU chips on the PCI bus. Leaves out Google's other devices, such as network cards."""
    chips = []
    for folder in sorted(proc.ROOT.glob("sys/bus/pci/devices/*")):
        vendor, device = ((folder / name).read_text().strip() for name in ("vendor", "device"))
        if vendor == GOOGLE_PCI_VENDOR_ID and device in CHIPS:
            chips.append(CHIPS[device])
    return chips
