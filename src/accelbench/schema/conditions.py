"""What a cell was measured under: its data set, and the machine while it ran."""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class SystemSeries:
    """The sampler's series over a cell's life.

    Attributes:
        started_boot_s: when the cell's process started, in seconds since the machine did.
        t_s: seconds since the cell's process started, a value per sample.
        values: name -> a value per sample (None where that sample has none). Names carry their unit:
            `host_memory_mb`, `cpu_utilization_percent`, `gpu_0_memory_mb`, `gpu_0_power_w`, ...
        peak_host_bytes: the kernel's own high-water mark of the cell's process where it could be read, or
            the largest sample of its process tree, whichever is more.
    """

    started_boot_s: float | None = None
    t_s: list[float] = field(default_factory=list)
    values: dict[str, list[float | None]] = field(default_factory=dict)
    peak_host_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Data:
    """The data set that a cell read, from its manifest.

    Attributes:
        digest: of the manifest: changes with any byte of the data.
        source: where it came from, for people.
        stand_in: whether it only stands in for the set it is named after.
    """

    name: str
    digest: str
    source: str
    stand_in: bool
