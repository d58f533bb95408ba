"""The conditions of a measurement: the data set, and what the machine did meanwhile."""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class SystemSeries:
    """Samples of the system, taken from the start of a cell's process to the end of its measurement.

    Attributes:
        started_boot_s: when the cell's process started, in seconds since the machine started; None without samples.
        t_s: seconds since the process started, one value per sample.
        values: name -> one value per sample; None if that sample failed. Names end in their unit:
            `host_memory_mb`, `cpu_utilization_percent`, `gpu_0_memory_mb`, `gpu_0_power_w`, ...
        peak_host_bytes: peak memory of the cell: the larger of the kernel's high-water mark of its processes and the
            largest sample; None if both are unknown.
    """

    started_boot_s: float | None = None
    t_s: list[float] = field(default_factory=list)
    values: dict[str, list[float | None]] = field(default_factory=dict)
    peak_host_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Data:
    """The data set that a cell read, as its manifest describes it.

    Attributes:
        digest: of the manifest; changes with any byte of the data.
        source: where the data came from, in words.
        stand_in: True if the data only replaces the data set of this name, which could not be had.
    """

    name: str
    digest: str
    source: str
    stand_in: bool
