"""Measures inference on the CPU with engines that compile networks of PyTorch.

One process exports the network to a folder. The processes of cells load the network from this folder.
"""

import json
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from accelbench.data.arrays import load_split
from accelbench.engines.exported.compiler import Call, Compiler, EngineReport, call_of
from accelbench.engines.exported.spec import serves_any_size
from accelbench.engines.formats import INTEGERS, word_for
from accelbench.engines.pytorch import zoo
from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.feed import Feed
from accelbench.engines.pytorch.flops import busiest_of, count
from accelbench.engines.pytorch.global_state import flush_denormals, new_tensors_in
from accelbench.engines.pytorch.module import ImageTask, InferStep, Program
from accelbench.engines.pytorch.network_and_data import workload_of
from accelbench.engines.pytorch.outputs import NetworkOutputs
from accelbench.engines.pytorch.precision import STORED_DTYPES, cast_tensor
from accelbench.engines.pytorch.ranks import Ranks
from accelbench.engines.pytorch.structure import mapped
from accelbench.engines.pytorch.training import in_other_mode
from accelbench.engines.registry import UNFINISHED
from accelbench.errors import UnsupportedError
from accelbench.measuring.checks import Products
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Answers, Measurement, Observed, Work
from accelbench.schema.vocab import QUANTIZED, Library, Pipeline, Precision, Weights

FILE = "artifact.json"
MIN_CALIBRATED = 128  # fewest samples for calibration, in full batches
MAX_ASKED_S = 20.0  # seconds for the accuracy check; if the time is over, only the first samples of the test set count
IMAGES = (Pipeline.array, Pipeline.jpeg)  # pipelines with images of a data set
# Libraries of networks that classify images.
CLASSIFYING = frozenset({Library.accelbench, Library.timm, Library.torchvision})


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """The description of an exported network. It is saved as JSON beside the network."""

    file: str  # the name of the file that the engine loads
    export_s: float  # seconds to export the network from PyTorch
    quantize_s: float | None = None  # seconds to quantise it, calibration included; None if it was not quantised
    num_calibrated: int = 0  # samples used for calibration
    compile_s: float = 0.0  # seconds to compile it before it was saved; about 0 if the engine compiles when it loads
    num_bytes: int  # bytes of its files


def export(make: Callable[[Cell], Compiler], cell: Cell, data_folder: Path, folder: Path) -> None:
    """Exports the network of `cell` to `folder`. Creates `folder` only after all files have been written.

    Raises UnsupportedError if the network can't be exported.
    """
    with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=folder.parent) as unfinished:
        artifact = _Run(cell, data_folder, make(cell)).export(Path(unfinished))
        Path(unfinished, FILE).write_text(json.dumps(vars(artifact)))
        Path(unfinished).rename(folder)


def run(
    make: Callable[[Cell], Compiler],
    cell: Cell,
    data_folder: Path,
    work: Work | None = None,
    exported: Path | None = None,
    requests: Path | None = None,
) -> Measurement | None:
    """Runs `cell` in this process. The process must not have run another cell. See `CellRun.measure`.

    `exported` is a folder that `export` wrote in another process. If it is None, this process exports the network.
    Raises UnsupportedError if the cell can't run.
    """
    with tempfile.TemporaryDirectory(prefix="exported-") as folder:
        cell_run = _Run(cell, data_folder, make(cell))
        cell_run.load(exported, Path(folder))
        return cell_run.measure(work, requests)


class _Run(NetworkOutputs):
    """The run of one cell. A step is a call of the compiled network.

    `precision` is the precision of the network before its export.
    """

    feed: Feed
    artifact: Artifact
    ran: EngineReport
    is_plain = False  # type: ignore[assignment]

    def __init__(self, cell: Cell, data_folder: Path, compiled: Compiler) -> None:
        backend = Backend()
        backend.begin(cell)
        super().__init__(cell, data_folder, backend)
        self.compiled = compiled
        self.quantizes = cell.precision in QUANTIZED
        self.precision = compiled.computes_in or (Precision.fp32 if self.quantizes else cell.precision)
        self.dtype = STORED_DTYPES[self.precision]
        self.workload = workload_of(replace(cell, precision=self.precision), data_folder, backend, Ranks(1))
        self.feed = self.workload.feed
        start = time.perf_counter()
        network = self.workload.build().eval().to(self.dtype)
        if cell.options.channels_last:
            self.check_layout()
            network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.network = network
        self.num_params = zoo.num_params(network)
        self.build_s = time.perf_counter() - start

    def _call(self, batch: Any = None) -> Call:
        batch = self.workload.example() if batch is None else batch
        return self.workload.task.infer(call_of, batch)  # type: ignore[arg-type]

    def export(self, folder: Path) -> Artifact:
        """Checks the network's output in PyTorch, then exports the network to `folder`.

        If the cell serves requests, the network must accept any batch size. Raises UnsupportedError if the export
        fails.
        """
        compiled = self.compiled
        self._use_dtype()
        with torch.no_grad():
            self.workload.check_first(self.workload.task.infer(self.network, self.workload.example()))
        self.backend.hold(self.dtype)
        any_size = serves_any_size(self.cell)
        call = self._call(self.joined(self.requests(2)) if any_size else None)
        exported, export_s = _timed(compiled.export, self.network, replace(call, any_size=any_size), folder)
        quantize_s, num_calibrated = None, 0
        if self.quantizes:
            calls, num_calibrated = self._calibration()
            exported, quantize_s = _timed(compiled.quantized, exported, calls, folder)
        path, compile_s = _timed(compiled.save, exported, folder)
        return Artifact(
            file=path.name,
            export_s=export_s,
            quantize_s=quantize_s,
            num_calibrated=num_calibrated,
            compile_s=compile_s,
            num_bytes=sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()),
        )

    def _use_dtype(self) -> None:
        """Sets torch's default dtype to the dtype of the network, as in a step of the PyTorch engine."""
        if torch.get_default_dtype() == torch.float32:  # if user code has changed it, `Backend.hold` adds a note
            torch.set_default_dtype(self.dtype)

    def _calibration(self) -> tuple[list[Call], int]:
        """Takes full batches of the training set for calibration.

        Returns a list with the network's arguments for each batch. Also returns the number of samples in all batches.
        """
        calls, num = [], 0
        shapes = [tensor.shape for tensor in self._call().tensors()]
        for batch in self.workload.feed_of("train"):  # never the test set, which measures the accuracy
            call = self._call(batch)
            if [tensor.shape for tensor in call.tensors()] == shapes:
                calls.append(call)
                num += self.workload.task.num_samples(batch)
            if num >= MIN_CALIBRATED:
                break
        if not calls:
            raise UnsupportedError(
                "precision=int8: calibration needs a full batch of the training set: lower batch_size"
            )
        return calls, num

    def load(self, exported: Path | None, empty: Path) -> None:
        """Loads the network from the folder `exported`.

        If `exported` is None, exports the network to the folder `empty` and loads it from there.
        """
        if exported is None:
            artifact = self.export(empty)
        else:
            artifact = Artifact(**json.loads((exported / FILE).read_text()))
            self._use_dtype()  # again, because the user's code has run
            self.backend.hold(self.dtype)
        self.artifact = artifact
        self.path = (exported or empty) / artifact.file
        _, load_s = _timed(self.compiled.load, self.path)
        if self.backend.flushes_denormals:
            flush_denormals()  # again, because an engine may have reset this thread
        self.backend.count_compiles = lambda: (1, artifact.compile_s + load_s)

    def _step(self, compiled: Compiler) -> InferStep:
        """A step that calls a compiled network."""

        def network(*args: Any, **kwargs: Any) -> Any:
            return compiled(call_of(*args, **kwargs))

        program = Program(network, self.workload.task, self.backend, self.precision)  # type: ignore[arg-type]
        return InferStep(program, self.feed)

    def new_step(self) -> InferStep:
        self.step = self._step(self.compiled)
        return self.step

    def further_step(self) -> InferStep:
        further = type(self.compiled)(self.cell)
        further.load(self.path)
        return self._step(further)

    def observe(self) -> Observed:
        ran = self.ran = self.compiled.ran(self._call())
        seconds: dict[str, float] = defaultdict(float)
        for name, took_s in ran.times:
            seconds[name] += took_s
        self.operators = busiest_of(seconds, Counter(name for name, _ in ran.times))
        nums: Counter[str] = Counter()
        for name, num in ran.formats.items():
            nums[Precision.int8 if name in INTEGERS else name] += num
        self.observations.products = Products(flops=dict(nums), of="matrix products (each counted as one)")
        self.observations.in_training_mode = in_other_mode(self.network, training=False)
        self.keep_output()
        return Observed(
            device="cpu",
            device_name=self.device_name(),
            precision=word_for(ran.computed, ran.computed, tf32=False),
            num_devices=1,
            threads=ran.threads * self.cell.num_instances,
            work=self.work_of_step(self._work),
            tokens_per_sample=self.workload.tokens_per_sample(),
            export_s=self.artifact.export_s,
            quantize_s=self.artifact.quantize_s,
            artifact_bytes=self.artifact.num_bytes,
            formats=dict(ran.formats),
            answers=None if self.is_one_step else self._answers(),
        )

    def _work(self) -> Work:
        precision = self.precision if self.quantizes else self.cell.precision
        dtype = STORED_DTYPES[precision]
        batch = mapped(self.workload.example(), lambda tensor: cast_tensor(tensor, dtype))
        work = count(replace(self.cell, precision=precision), self.network, self.workload.task, batch)
        # Unknown if quantised: the bytes depend on which operators use int8.
        return replace(work, bytes=None) if self.quantizes else work

    @torch.no_grad()
    def _answers(self) -> Answers | None:
        """Counts how many images of the test set the compiled network classifies correctly.

        Also counts how many the original network classifies correctly in fp32. Returns None if the weights are random,
        if the network does not classify images, or if the cell has no data set.
        """
        model = self.cell.model
        trained = model.weights != Weights.none and self.cell.data.pipeline in IMAGES
        if not trained or model.library not in CLASSIFYING or model.is_own("autoencoder"):
            return None
        arrays = load_split(self.data_folder, "test")
        size = self.cell.batch_size
        rights, fp32_rights = [], []  # for each sample, whether the answer is right
        with new_tensors_in(torch.float32):
            network = self.workload.build().eval()
            task = ImageTask(torch.float32)
            began = time.monotonic()
            for start in range(0, len(arrays.labels), size):
                labels = torch.from_numpy(arrays.labels[start : start + size]).long()
                images = torch.from_numpy(arrays.images[start : start + size])
                full = images[torch.arange(size) % len(images)]  # fills a short last batch up
                rights.append(task.answers(self.step.compute((full,))[0].float())[: len(labels)] == labels)
                fp32_rights.append(task.answers(network(task.inputs(images))) == labels)
                if time.monotonic() - began > MAX_ASKED_S:
                    break
        right, fp32_right = torch.cat(rights), torch.cat(fp32_rights)
        return Answers(
            num_samples=len(right),
            num_right=int(right.sum()),
            num_fp32_right=int(fp32_right.sum()),
            num_won=int((right & ~fp32_right).sum()),
        )

    def notes(self) -> Iterator[str]:
        yield from super().notes()
        if self.quantizes:
            formats = self.ran.formats
            num_integers = sum(num for name, num in formats.items() if name in INTEGERS)
            yield f"int8: {num_integers} of {sum(formats.values())} matrix products multiply integers"
            yield f"int8: calibrated on {self.artifact.num_calibrated} samples"


def _timed(call: Callable[..., Any], *args: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    return call(*args), time.perf_counter() - start
