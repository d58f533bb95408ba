"""What a machine's devices can do at most, as measured, and the file that keeps it."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelbench.project import CEILINGS
from accelbench.schema.serialize import digest, load, write_json
from accelbench.schema.vocab import Precision

MIXED = {Precision.fp16_mixed: Precision.fp16, Precision.bf16_mixed: Precision.bf16}


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """The best that was seen of one device. What the device can't do is absent or None, never 0.

    Attributes:
        device: its word, such as `gpu`.
        device_name: such as `NVIDIA H200`; None where only the fingerprint knows it.
        threads: CPU threads that computed; None where the library takes no limit.
        flops_per_s: true precision -> operations per second, a convolution's counted by definition.
        how: true precision -> which operation won.
        memory_bytes_per_s: bytes read and written; what a cache reads before it writes to it is not counted.
        host_to_device_bytes_per_s, device_to_host_bytes_per_s: from and to pinned memory; None for a device whose
            memory is the host's.
        launch_s: seconds until an operator's call returned, in a chain of them that nobody waited for.
        seconds: what the probe took.
        measured_at: UTC, ISO 8601.
    """

    device: str
    device_name: str | None
    threads: int | None
    flops_per_s: Mapping[str, float]
    how: Mapping[str, str]
    memory_bytes_per_s: float
    host_to_device_bytes_per_s: float | None
    device_to_host_bytes_per_s: float | None
    launch_s: float
    seconds: float
    measured_at: str

    def ceiling_of(self, precision: str) -> float | None:
        """Operations per second in `precision`; None where there is none.

        A mixed one may compute in either of its formats: the higher ceiling of the two holds.
        """
        lower = MIXED.get(Precision(precision))
        formats = [Precision(precision)] if lower is None else [lower, Precision.fp32]
        return max((self.flops_per_s[word] for word in formats if word in self.flops_per_s), default=None)

    def of_devices(self, num: int) -> "Ceilings":
        """Those of `num` such devices together, which launch at the same time."""
        both = (self.host_to_device_bytes_per_s, self.device_to_host_bytes_per_s)
        there, back = (None if rate is None else num * rate for rate in both)
        return dataclasses.replace(
            self,
            flops_per_s={word: num * rate for word, rate in self.flops_per_s.items()},
            memory_bytes_per_s=num * self.memory_bytes_per_s,
            host_to_device_bytes_per_s=there,
            device_to_host_bytes_per_s=back,
        )

    def joined(self, other: "Ceilings") -> "Ceilings":
        """The better of both in everything: whatever else ran on the machine only ever made a probe's result worse.

        Args:
            other: a second probe of the same device; its time is kept, and the seconds of both are added.
        """
        rates = {
            word: max(one.get(word, 0.0) for one in (self.flops_per_s, other.flops_per_s))
            for word in {**self.flops_per_s, **other.flops_per_s}
        }
        kept = {word: self if self.flops_per_s.get(word) == rate else other for word, rate in rates.items()}
        return dataclasses.replace(
            other,
            flops_per_s=rates,
            how={word: one.how[word] for word, one in kept.items()},
            memory_bytes_per_s=max(self.memory_bytes_per_s, other.memory_bytes_per_s),
            host_to_device_bytes_per_s=_best(self.host_to_device_bytes_per_s, other.host_to_device_bytes_per_s),
            device_to_host_bytes_per_s=_best(self.device_to_host_bytes_per_s, other.device_to_host_bytes_per_s),
            launch_s=min(self.launch_s, other.launch_s),
            seconds=self.seconds + other.seconds,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)


def _best(one: float | None, other: float | None) -> float | None:
    return max((rate for rate in (one, other) if rate is not None), default=None)


def ceilings_in(environment: Mapping[str, Any]) -> Ceilings | None:
    """The ceilings in a record's environment; None if its device was not probed, or by a release with other fields."""
    values = environment.get("ceilings")
    return _load(values) if values else None


def read_ceilings(root: Path, environment: Mapping[str, Any]) -> dict[str, Ceilings]:
    """The ceilings of this machine's devices that `root`/ceilings.json holds, by device word.

    Args:
        root: the folder of the file.
        environment: the fingerprint; ceilings of another machine, other versions or other measuring code are ignored.
    """
    of_machine = _read_file(root / CEILINGS).get(_machine_key(environment), {})
    found = {device: _load(values) for device, values in of_machine.items()}
    return {device: ceilings for device, ceilings in found.items() if ceilings is not None}


def write_ceilings(root: Path, environment: Mapping[str, Any], device: str, ceilings: Ceilings) -> None:
    """Writes the ceilings of `device` into `root`/ceilings.json; those of other devices and machines are kept.

    Raises:
        OSError: the file can't be written.
    """
    machines = _read_file(root / CEILINGS)
    machines.setdefault(_machine_key(environment), {})[device] = dataclasses.asdict(ceilings)
    write_json(root / CEILINGS, machines)


def _machine_key(environment: Mapping[str, Any]) -> str:
    """The file's name for the machine, software and measuring code of `environment`."""
    return digest({name: environment[name] for name in ("machine", "versions", "variables", "code")})[:12]


def _read_file(path: Path) -> dict[str, dict[str, Any]]:
    """The file's machines. A file that is missing or unreadable counts as empty: the next probe writes it anew."""
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _load(values: Mapping[str, Any]) -> Ceilings | None:
    try:
        return load(Ceilings, values)
    except TypeError:  # written by another release, with other fields
        return None
