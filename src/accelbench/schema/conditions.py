"""The conditions of a measurement: the data set, and what the machine did meanwhile."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

from accelbench.schema.ranges import AtLeastOne, Count, Difference, Reading, Seconds

SeriesName = Annotated[str, re.compile("[A-Za-z0-9_]+")]


@dataclass(frozen=True, kw_only=True)
class SystemSeries:
    """Samples of the system, taken from the start of a cell's process to the end of its measurement."""

    # when the cell's process started, in seconds since the machine started; None without samples
    started_boot_s: Seconds | None = None
    t_s: list[Difference] = field(default_factory=list)  # seconds since the process started, one value per sample
    # name -> one value per sample; None if that sample failed. Names end in their unit, such as `gpu_0_power_w`
    values: dict[SeriesName, list[Reading | None]] = field(default_factory=dict)
    # the larger of the kernel's high-water mark of the cell's processes and the largest sample; None if unknown
    peak_host_bytes: Count | None = None
    # logical cores that `other_cpu_utilization_percent` is of; None in older records
    num_cores: AtLeastOne | None = None

    def __post_init__(self) -> None:
        for name, values in self.values.items():
            if len(values) != len(self.t_s):
                raise ValueError(f"{name} should have {len(self.t_s)} values, as t_s has")

    def within(self, name: str, boot_s: tuple[float, float] | None) -> list[float]:
        """The known values of a series from the begin to the end `boot_s`, in seconds since the machine started."""
        if boot_s is None or self.started_boot_s is None:
            return []
        low, high = (time_s - self.started_boot_s for time_s in boot_s)
        values = zip(self.t_s, self.values.get(name, []), strict=False)
        return [value for t_s, value in values if value is not None and low <= t_s <= high]


@dataclass(frozen=True, kw_only=True)
class Witnessed:
    """What the host saw of the process that timed a cell. The host runs no code of the cell."""

    num_sections: Count  # timed sections that the process said it began and ended
    timed_s: Seconds  # seconds of all sections, on the host's clock
    late_s: Seconds  # how late the host heard of things meanwhile, at most
    num_cores: Count  # on which the process's threads could run, at least, while something was timed
    num_allowed_cores: Count  # the same when the process started
    is_bound_outside: bool = False  # whether the environment has variables of OpenMP that bind threads to cores


@dataclass(frozen=True, kw_only=True)
class Data:
    """The data set that a cell read, as its manifest describes it."""

    name: str
    digest: str  # of the manifest; changes with any byte of the data
    source: str  # where the data came from, in words
    stand_in: bool  # True if the data only replaces the data set of this name, which could not be had


class GpuDetails(TypedDict, total=False):
    """One GPU of `Machine.gpus`; what its driver does not report is None."""

    memory_gb: Count | None
    multiprocessors: Count | None
    compute_capability: str | None


class Machine(TypedDict, total=False):
    """The entries of `Environment.machine` that are computed with or listed."""

    cpu_name: str | None
    num_cores: AtLeastOne | None
    num_threads: AtLeastOne | None
    gpus: list[str]
    gpu_details: list[GpuDetails]
    tpus: list[str]


class Git(TypedDict, total=False):
    """The state of the checkout; empty without one."""

    revision: str | None
    branch: str | None
    dirty: bool


class Environment(TypedDict, total=False):
    """What a record's environment has of these entries is of these types; it may have others."""

    machine: Machine
    versions: Mapping[str, str]
    variables: Mapping[str, str]
    code: str
    probe_code: str
    git: Git
    node: Mapping[str, str]
    idle_w: Mapping[str, Reading]
    ceilings: Mapping[str, Any] | None
