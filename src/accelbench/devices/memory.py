"""The memory of this process."""

from pathlib import Path


def high_water_bytes() -> int | None:
    """The kernel's high-water mark of this process's resident memory; None if it is not reported."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None
