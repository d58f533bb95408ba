"""An exported network in files, which several processes load."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FILE = "artifact.json"


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """What is known of an exported network. Seconds are wall time.

    Attributes:
        file: the name of the file that the engine loads, in the artifact's folder.
        given: digest of what was exported, see `given.Given.digest`.
        export_s: time to export the network from PyTorch.
        quantize_s: time to quantise it, calibration included; None if it was not.
        num_calibrated: samples that it was calibrated on.
        compile_s: time to compile it before it was saved; next to 0 of an engine that compiles what it loads.
        formats: see `compiler.Ran.formats`, of an engine that knows them before the network runs; else empty.
        num_bytes: size of its files.
        num_rows: rows of a batch, as its output in PyTorch showed; see `workload.Workload`.
        denormals: sentences about its denormal numbers in PyTorch.
        notes: what its code set in vain when it ran in PyTorch.
    """

    file: str
    given: str
    export_s: float
    quantize_s: float | None = None
    num_calibrated: int = 0
    compile_s: float = 0.0
    formats: Mapping[str, int] = field(default_factory=dict)
    num_bytes: int
    num_rows: int
    denormals: Sequence[str]
    notes: Sequence[str]

    def write(self, folder: Path) -> None:
        """Writes it beside the network's files."""
        (folder / FILE).write_text(json.dumps(vars(self)))


def read(folder: Path) -> Artifact:
    """The artifact in `folder`."""
    return Artifact(**json.loads((folder / FILE).read_text()))
