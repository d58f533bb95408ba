"""A network is exported into files, in a process of its own, which several processes then load."""

import json
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from accelbench.engines.exported.build import BuiltNetwork, Call, call_of, cpu_of
from accelbench.engines.exported.compiler import Compiler
from accelbench.engines.registry import UNFINISHED
from accelbench.errors import UnsupportedError
from accelbench.schema.cell import Cell

FILE = "artifact.json"


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """What is known of an exported network. Seconds are wall time.

    Attributes:
        file: the name of the file that the engine loads, in the artifact's folder.
        given: digest of what was exported, see `build.BuiltNetwork.digest`.
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


MIN_CALIBRATED = 128  # samples, in whole batches


def export(cell: Cell, data_folder: Path, compiler: Compiler, folder: Path) -> None:
    """Exports the network of `cell`, in this process, which must have run no cell.

    Args:
        cell: inference on the CPU.
        data_folder: where the data set's arrays are.
        compiler: the engine.
        folder: a new one. It appears when everything has been written.

    Raises:
        UnsupportedError: the cell can't run, with the reason.
    """
    unfinished = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=folder.parent))
    try:
        given = BuiltNetwork(cell, data_folder, cpu_of(cell), compiler.computes_in)
        export_given(given, compiler, unfinished).write(unfinished)
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def export_given(given: BuiltNetwork, compiler: Compiler, folder: Path) -> Artifact:
    """Runs a network in PyTorch and exports it into `folder`. Raises an UnsupportedError if it can't be exported."""
    digest = given.digest()  # of the network as it was built
    denormals = given.run_in_torch()
    start = time.perf_counter()
    exported = compiler.export(given.network, given.call(), folder)
    export_s = time.perf_counter() - start
    quantize_s, num_calibrated = None, 0
    if given.quantizes:
        calls, num_calibrated = _calibration(given)
        start = time.perf_counter()
        exported = compiler.quantized(exported, calls, folder)
        quantize_s = time.perf_counter() - start
    start = time.perf_counter()
    saved = compiler.save(exported, given.cell, folder)
    compile_s = time.perf_counter() - start
    return Artifact(
        file=saved.path.name,
        given=digest,
        export_s=export_s,
        quantize_s=quantize_s,
        num_calibrated=num_calibrated,
        compile_s=compile_s,
        formats=saved.formats,
        num_bytes=sum(each.stat().st_size for each in folder.rglob("*") if each.is_file()),
        num_rows=given.workload.num_rows,
        denormals=list(denormals.warnings()),
        notes=list(given.backend.notes()),
    )


def _calibration(given: BuiltNetwork) -> tuple[list[Call], int]:
    """Calls with batches of the cell's data, and how many samples they have."""
    task, calls, num = given.workload.task, [], 0
    shapes = [tensor.shape for tensor in given.call().tensors()]
    for batch in given.workload.calibration():
        call: Call = task.infer(call_of, batch)  # type: ignore[arg-type]
        if [tensor.shape for tensor in call.tensors()] == shapes:
            calls.append(call)
            num += task.num_samples(batch)
        if num >= MIN_CALIBRATED:
            break
    if not calls:
        raise UnsupportedError("precision=int8: the training set has no whole batch to calibrate with")
    return calls, num
