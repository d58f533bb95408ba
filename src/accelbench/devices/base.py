"""What every device module answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from accelbench.schema.vocab import Device


@dataclass(frozen=True, kw_only=True)
class DeviceReport:
    """One kind of device on this machine.

    Attributes:
        present: whether cells can run on it here.
        reason: why not, in one line that says what mends it where something does; None where it is present.
        name: the hardware's own name; empty where it is absent.
        count: devices of this kind that a process here may use; 0 where it is absent.
        memory_bytes: memory of one of them (the least); None where it can't be asked.
        details: further facts for people and for `support`; keys are snake_case words with their unit.
    """

    device: Device
    present: bool
    reason: str | None = None
    name: str = ""
    count: int = 0
    memory_bytes: int | None = None
    details: Mapping[str, str] = field(default_factory=dict)


def absent(device: Device, reason: str) -> DeviceReport:
    """The report of a device that cells can't run on here."""
    return DeviceReport(device=device, present=False, reason=reason)
