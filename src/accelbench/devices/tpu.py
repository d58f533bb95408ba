"""A Cloud TPU attached to this machine, recognised in the same way as torch_xla does."""

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from accelbench.devices import packages
from accelbench.devices.registry import DeviceReport, absent
from accelbench.schema.vocab import Device

# PCI ids and cores per chip: torch_xla 2.9, `torch_xla/_internal/tpu.py`, `num_available_chips` and
# `num_logical_cores_per_chip`; names: JAX, `jax/_src/hardware_utils.py`.
GOOGLE_PCI_VENDOR_ID = "0x1ae0"
CHIPS = {
    **{"0x0027": "TPU v2 or v3", "0x0056": "TPU plc", "0x005e": "TPU v4", "0x0062": "TPU v5p"},
    **{"0x0063": "TPU v5e", "0x006f": "TPU v6e", "0x0076": "TPU7x"},
}
CORES_PER_CHIP = {"TPU v2 or v3": 2}


def look(
    root: Path = Path("/"), environ: Mapping[str, str] = os.environ, torch_xla_folder: Path | None = None
) -> DeviceReport:
    """The TPU's report; `root` holds sys/ and dev/. Without `torch_xla_folder`, the installed torch_xla counts."""
    chips = find_chips(root)
    if not chips:
        return absent(Device.tpu, "no TPU chip on the PCI bus")
    if not any(root.glob("dev/accel*")) and not any(root.glob("dev/vfio/[0-9]*")):  # up to v4, and from v5e on
        return absent(Device.tpu, "no /dev/accel* or /dev/vfio/* of the TPU: run the container with --privileged")
    name, num_chips = Counter(chips).most_common(1)[0]
    torch_xla_folder = torch_xla_folder or packages.folder("torch_xla")
    has_xla = torch_xla_folder is not None or packages.folder("jax") is not None
    # As torch_xla, or JAX without it, finds libtpu: named by a variable, bundled, or installed.
    is_bundled = torch_xla_folder is not None and (torch_xla_folder / "lib/libtpu.so").is_file()
    has_libtpu = "TPU_LIBRARY_PATH" in environ or is_bundled or packages.folder("libtpu") is not None
    if not (has_xla and has_libtpu):
        missing = "libtpu" if has_xla else "torch_xla"
        return absent(Device.tpu, f"{missing} is not installed: pip install 'torch_xla[tpu]'")
    count = num_chips * CORES_PER_CHIP.get(name, 1)
    return DeviceReport(device=Device.tpu, present=True, name=name, count=count, details={"chips": str(num_chips)})


def find_chips(root: Path = Path("/")) -> list[str]:
    """The TPU chips on the PCI bus, by name. Google's other PCI devices, such as network cards, are left out."""
    found = []
    for folder in sorted(root.glob("sys/bus/pci/devices/*")):
        vendor, device = ((folder / key).read_text().strip() for key in ("vendor", "device"))
        if vendor == GOOGLE_PCI_VENDOR_ID and device in CHIPS:
            found.append(CHIPS[device])
    return found
