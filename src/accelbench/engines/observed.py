"""What an engine notes of a cell that ran, beside its times."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from accelbench.measuring.runner import Compiles
from accelbench.schema.measurement import Answers, Work


@dataclass(frozen=True)
class Resources:
    """What the measured steps used; noted before anything else runs."""

    compiles: Compiles
    fallbacks: list[str] | None
    peak_device_bytes: int | None
    peak_host_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What really ran, as the engine observed it; the attributes are those of `schema.measurement.Measurement`."""

    device: str
    device_name: str
    precision: str
    num_devices: int
    threads: int | None
    loss: float | None = None
    work: Work | None = None
    cudnn_benchmark: bool | None = None
    export_s: float | None = None
    quantize_s: float | None = None
    answers: Answers | None = None
    artifact_bytes: int | None = None
    formats: Mapping[str, int] = field(default_factory=dict)
