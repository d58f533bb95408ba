"""The GPUs that computed a cell, as its record describes them."""

from dataclasses import dataclass

from accelbench.schema.record import Record
from accelbench.schema.vocab import Device


@dataclass(frozen=True)
class GpuFacts:
    """The GPUs of a cell in words, those of several models joined with ` + `; None if unknown."""

    memory: str | None
    multiprocessors: str | None
    compute_capability: str | None
    driver: str | None

    @property
    def text(self) -> str:
        """What is known, such as `80 GB, compute capability 8.0, driver 580.65`."""
        capability = self.compute_capability and f"compute capability {self.compute_capability}"
        driver = self.driver and f"driver {self.driver}"
        return ", ".join(filter(None, [self.memory, self.multiprocessors, capability, driver]))


UNKNOWN_GPU = GpuFacts(None, None, None, None)


def gpu_facts(record: Record) -> GpuFacts:
    """Of the GPUs that computed; nothing is known if others computed, or in older records."""
    if record.cell.device != Device.gpu or record.measurement is None:
        return UNKNOWN_GPU
    gpus = record.environment.get("machine", {}).get("gpu_details", [])[: record.measurement.num_devices]

    def joined(key: str, unit: str = "") -> str | None:
        values = [f"{gpu[key]}{unit}" for gpu in gpus if gpu.get(key) is not None]
        return " + ".join(dict.fromkeys(values)) or None

    return GpuFacts(
        memory=joined("memory_gb", " GB"),
        multiprocessors=joined("multiprocessors", " multiprocessors"),
        compute_capability=joined("compute_capability"),
        driver=record.environment.get("versions", {}).get("nvidia-driver"),
    )
