"""Ceilings are the highest speeds that a probe reached on a device. The file ceilings.json keeps them."""

import contextlib
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accelbench.project import CEILINGS
from accelbench.schema.cell import Precision
from accelbench.schema.serialize import (
    AtLeastOne,
    Rate,
    Seconds,
    digest,
    load,
    load_if_fits,
    read_json,
    write_json,
)

# Mixed precision -> the 16-bit format that it computes in.
MIXED = {Precision.fp16_mixed: Precision.fp16, Precision.bf16_mixed: Precision.bf16}
TRUE_PRECISIONS = tuple(word for word in Precision if word not in MIXED)


def formats_of(precision: str) -> list[Precision]:
    """Returns the number formats that `precision` computes in. A mixed precision has two formats, any other has one."""
    lower = MIXED.get(Precision(precision))
    return [Precision(precision)] if lower is None else [lower, Precision.fp32]


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """The highest speeds that a probe reached on one device.

    If the device lacks a precision, its speed is absent. It is never 0.
    """

    device: str  # the setting `device`, such as `gpu`
    device_name: str | None  # such as `NVIDIA H200`; None if the backend does not report it
    threads: AtLeastOne | None  # CPU threads that computed; None if the library has no setting for them
    # true precision -> operations per second. The operations of a convolution are those of its definition, whichever
    # algorithm computes it.
    flops_per_s: Mapping[str, Rate]
    # Bytes that the program reads and writes; a cache's additional reads do not count.
    memory_bytes_per_s: Rate
    launch_s: Seconds  # mean seconds of a tiny operator in a chain of such operators
    # true precisions that were tried, also those that the device lacks
    probed: list[str] = field(default_factory=list)

    def ceiling_of(self, precision: str) -> float | None:
        """Returns the operations per second in `precision`. Returns None if this precision was not probed.

        A mixed precision computes in two formats. Its ceiling is the higher ceiling of these formats.
        """
        rates = [self.flops_per_s[word] for word in formats_of(precision) if word in self.flops_per_s]
        return max(rates, default=None)

    def of_devices(self, num: int) -> "Ceilings":
        """Returns the ceilings of `num` such devices that compute together.

        `launch_s` stays the same, because all devices launch operators at the same time.
        """
        flops_per_s = {word: num * rate for word, rate in self.flops_per_s.items()}
        return dataclasses.replace(
            self, flops_per_s=flops_per_s, memory_bytes_per_s=num * self.memory_bytes_per_s
        )

    def joined(self, other: "Ceilings") -> "Ceilings":
        """Combines two probes of one device. Takes the better value of both, because other load only slows a probe.

        All other values come from `other`.
        """
        flops_per_s = {**self.flops_per_s}
        for word, rate in other.flops_per_s.items():
            flops_per_s[word] = max(rate, flops_per_s.get(word, 0.0))
        return dataclasses.replace(
            other,
            flops_per_s=flops_per_s,
            memory_bytes_per_s=max(self.memory_bytes_per_s, other.memory_bytes_per_s),
            launch_s=min(self.launch_s, other.launch_s),
            probed=sorted({*self.probed, *other.probed}),
        )


def ceilings_in(environment: Mapping[str, Any]) -> Ceilings | None:
    """Returns the ceilings in a record's environment. Returns None if there are none, or if their fields do not fit."""
    values = environment.get("ceilings")
    # In records of earlier releases: other programs disturbed the probe.
    if values and values.get("disturbed"):
        return None
    return load_if_fits(Ceilings, values)


def read_ceilings(root: Path, environment: Mapping[str, Any]) -> dict[str, Ceilings]:
    """Reads the ceilings of this machine from `root`/ceilings.json. Maps each device to its ceilings.

    An entry is ignored if its machine, versions or measuring code are not those in `environment`.
    """
    of_machine = _entries(root).get(_machine_key(environment), {})
    loaded = {device: load_if_fits(Ceilings, values) for device, values in of_machine.items()}
    return {device: ceilings for device, ceilings in loaded.items() if ceilings is not None}


def keep_ceilings(root: Path, environment: Mapping[str, Any], device: str, ceilings: Ceilings) -> None:
    """Writes the ceilings of a device of this machine into ceilings.json. All other entries stay.

    Raises OSError: the file can't be written.
    """
    entries = _entries(root)
    entries.setdefault(_machine_key(environment), {})[device] = ceilings
    write_json(root / CEILINGS, entries)


def _entries(root: Path) -> dict[str, dict[str, Any]]:
    """Returns an entry for each machine. Returns an empty dict if the file is missing or not valid.

    Raises RefusedError: the system refuses to read the file now.
    """
    with contextlib.suppress(OSError, ValueError):
        return load(dict[str, dict[str, Any]], read_json(root / CEILINGS))
    return {}


def _machine_key(environment: Mapping[str, Any]) -> str:
    return digest({name: environment[name] for name in ("machine", "versions", "variables", "code")})[:12]
