"""Measures inference on the CPU with engines that compile networks of PyTorch.

One process exports the network to a folder. The processes of cells load the network from this folder. Each engine has
a file beside this one, with a subclass of `Compiler` that is named `Compiled`.
"""

import importlib
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from accelbench.data.arrays import load_split
from accelbench.engines.pytorch import zoo
from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.feed import Feed
from accelbench.engines.pytorch.flops import count
from accelbench.engines.pytorch.module import ImageTask, InferStep, Program
from accelbench.engines.pytorch.network_and_data import workload_of
from accelbench.engines.pytorch.outputs import NetworkOutputs, in_other_mode
from accelbench.engines.pytorch.precision import STORED_DTYPES, cast_tensor, flush_denormals, new_tensors_in
from accelbench.engines.pytorch.ranks import Ranks
from accelbench.engines.pytorch.structure import mapped, tensors_in
from accelbench.engines.registry import UNFINISHED
from accelbench.errors import UnsupportedError
from accelbench.measuring.checks import INTEGERS, Products, word_for
from accelbench.schema.cell import QUANTIZED, SERVING, Cell, Library, Pipeline, Precision, Weights
from accelbench.schema.measurement import Answers, Measurement, Observed, Work
from accelbench.schema.text import beginning, message_of, one_line

FILE = "artifact.json"
MIN_CALIBRATED = 128  # fewest samples for calibration, in full batches
# Seconds for the accuracy check; if the time is over, only the first samples of the test set count.
MAX_ASKED_S = 20.0
MAX_WHY = 300  # characters of an exporter's error
IMAGES = (Pipeline.array, Pipeline.jpeg)  # pipelines with images of a data set
# Libraries of networks that classify images.
CLASSIFYING = frozenset({Library.accelbench, Library.timm, Library.torchvision})

Inputs = tuple[tuple[Any, ...], dict[str, Any]]  # the arguments of one call of a network's `forward`


def inputs_of(*args: Any, **kwargs: Any) -> Inputs:
    """Returns its arguments.

    `task.infer(network, batch)` calls the network. `task.infer(inputs_of, batch)` returns the arguments of this call.
    """
    return args, kwargs


def tensors_of(inputs: Inputs) -> list[Tensor]:
    """Returns the tensors of the arguments in the order of the exported network's inputs."""
    args, kwargs = inputs
    if len(args) == 1 and not kwargs and isinstance(args[0], Tensor):
        return [args[0]]
    return list(tensors_in(inputs))


@dataclass(frozen=True, kw_only=True)
class EngineReport:
    """The engine's report on a compiled network. The engine makes it after the network ran."""

    computed: str  # the dtype of weights and matrix products, by its name in NumPy
    threads: int  # number of threads that compute
    # Format -> number of matrix products in this format.
    formats: Mapping[str, int] = field(default_factory=dict)


class Compiler:
    """The base class of engines that export a network to a file, load the file, and run the network.

    Another process may load the file. The methods raise UnsupportedError if the network can't be exported or run.
    """

    computes_in: Precision | None = Precision.fp32  # precision of the network to export; None: the cell's

    def __init__(self, cell: Cell) -> None:
        self.cell = cell

    def convert(self, program: ExportedProgram, folder: Path) -> Any:
        """Converts the network. Returns an object that `save` accepts; this may be the path of a file in `folder`."""
        return program

    def quantized(self, exported: Any, samples: Sequence[Inputs], folder: Path) -> Any:
        """Quantises the result of `convert`, so that matrix products run in int8. Calibrates with `samples`."""
        raise NotImplementedError

    def save(self, exported: Any, folder: Path) -> Path:
        """Writes the network to `folder`. Some engines compile the network first. Returns the file for `load`.

        The network may consist of more files in this folder.
        """
        return exported

    def load(self, path: Path) -> None:
        """Loads a file of `save`, which another process may have written. The network uses as many threads as torch."""
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Sequence[Tensor]:
        """Runs the network and returns the tensors of its output. The next call may overwrite them."""
        raise NotImplementedError

    def ran(self, inputs: Inputs) -> EngineReport:
        """Reports what ran. May run the network again, so call it after the measurement."""
        raise NotImplementedError


class TensorOutputs(nn.Module):
    """Wraps a network. The wrapper returns the tensors of the network's output as a tuple."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    # Not `*args` and `**kwargs`: torch.export has no dynamic shapes for these.
    def forward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, ...]:
        return tuple(tensors_in(self.network(*args, **kwargs)))


@contextmanager
def skipping(exporter: str) -> Iterator[None]:
    """A context that converts any exception of an exporter to UnsupportedError, so that the cell is skipped."""
    try:
        yield
    except Exception as error:  # any exception: an exporter runs the user's code
        why = beginning(one_line(message_of(error)), MAX_WHY)
        raise UnsupportedError(
            f"{exporter} can't convert the network: {type(error).__name__}: {why}"
        ) from error


def program_of(network: nn.Module, inputs: Inputs, *, any_size: bool) -> ExportedProgram:
    """Exports the network with torch.export, for `inputs` of these shapes.

    If `any_size`, the first dimension of the inputs may have any size.
    """
    shapes, exporter = None, "torch.export"
    if any_size:
        first: Any = {0: torch.export.Dim.DYNAMIC}
        shapes = mapped(inputs, lambda tensor: first)
        exporter = "torch.export for any batch size (use server.max_batch=1, or engine=pytorch)"
    with skipping(exporter), torch.no_grad():
        program = torch.export.export(
            TensorOutputs(network).eval(), inputs, dynamic_shapes=shapes, strict=False
        )
    return program  # noqa: RET504  # mypy assumes that a context may suppress exceptions


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """The description of an exported network. It is saved as JSON beside the network."""

    file: str  # the name of the file that the engine loads
    export_s: float  # seconds to export the network from PyTorch
    # Seconds to quantise it, calibration included; None if it was not quantised.
    quantize_s: float | None = None
    num_calibrated: int = 0  # samples used for calibration
    # Seconds to compile it before it was saved; about 0 if the engine compiles when it loads.
    compile_s: float = 0.0
    num_bytes: int  # bytes of its files


def export(cell: Cell, data_folder: Path, folder: Path) -> None:
    """Exports the network of `cell` to `folder`. Creates `folder` only after all files have been written.

    Raises UnsupportedError if the network can't be exported.
    """
    with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=folder.parent) as unfinished:
        artifact = _Run(cell, data_folder).export(Path(unfinished))
        Path(unfinished, FILE).write_text(json.dumps(vars(artifact)))
        Path(unfinished).rename(folder)


def run(
    cell: Cell,
    data_folder: Path,
    exported: Path | None = None,
    requests: Path | None = None,
) -> Measurement | None:
    """Runs `cell` in this process. The process must not have run another cell. See `CellRun.measure`.

    `exported` is a folder that `export` wrote in another process. If it is None, this process exports the network.
    Raises UnsupportedError if the cell can't run.
    """
    with tempfile.TemporaryDirectory(prefix="exported-") as folder:
        if exported is None:
            exported = Path(folder, "network")
            export(cell, data_folder, exported)
        cell_run = _Run(cell, data_folder)
        cell_run.load(exported)
        return cell_run.measure(requests)


def compiler_of(cell: Cell) -> Compiler:
    """Creates the compiler of the cell's engine."""
    compiler: Compiler = importlib.import_module(f"accelbench.engines.exported.{cell.engine}").Compiled(cell)
    return compiler


class _Run(NetworkOutputs):
    """The run of one cell. A step is a call of the compiled network.

    `precision` is the precision of the network before its export.
    """

    feed: Feed
    artifact: Artifact
    ran: EngineReport
    is_plain = False  # type: ignore[assignment]

    def __init__(self, cell: Cell, data_folder: Path) -> None:
        backend = Backend()
        backend.begin(cell)
        super().__init__(cell, data_folder, backend)
        self.compiler = compiler_of(cell)
        self.quantizes = cell.precision in QUANTIZED
        self.precision = self.compiler.computes_in or (Precision.fp32 if self.quantizes else cell.precision)
        dtype = STORED_DTYPES[self.precision]
        self.workload = workload_of(replace(cell, precision=self.precision), data_folder, backend, Ranks(1))
        self.feed = self.workload.feed
        start = time.perf_counter()
        network = self.workload.build().eval().to(dtype)
        if cell.options.channels_last:
            self.check_layout()
            network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.network = network
        self.num_params = zoo.num_params(network)
        self.build_s = time.perf_counter() - start
        backend.hold(dtype)

    def _inputs(self, batch: Any = None) -> Inputs:
        batch = self.workload.example() if batch is None else batch
        return self.workload.task.infer(inputs_of, batch)  # type: ignore[arg-type]

    def export(self, folder: Path) -> Artifact:
        """Checks the network's output in PyTorch, then exports the network to `folder`.

        If the cell serves requests, the network must accept any batch size. Raises UnsupportedError if the export
        fails.
        """
        compiler = self.compiler
        with torch.no_grad():
            self.workload.check_first(self.workload.task.infer(self.network, self.workload.example()))
        # For requests, one network for all batch sizes: an export for each size would take too long.
        any_size = self.cell.protocol in SERVING and self.cell.batch_size > 1
        inputs = self._inputs(self.joined(self.requests(2)) if any_size else None)
        start = time.perf_counter()
        exported = compiler.convert(program_of(self.network, inputs, any_size=any_size), folder)
        export_s = time.perf_counter() - start
        quantize_s, num_calibrated = None, 0
        if self.quantizes:
            samples, num_calibrated = self._calibration()
            exported, quantize_s = _timed(compiler.quantized, exported, samples, folder)
        path, compile_s = _timed(compiler.save, exported, folder)
        return Artifact(
            file=path.name,
            export_s=export_s,
            quantize_s=quantize_s,
            num_calibrated=num_calibrated,
            compile_s=compile_s,
            num_bytes=sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()),
        )

    def _calibration(self) -> tuple[list[Inputs], int]:
        """Takes full batches of the training set for calibration.

        Returns a list with the network's arguments for each batch. Also returns the number of samples in all batches.
        """
        samples, num = [], 0
        shapes = [tensor.shape for tensor in tensors_of(self._inputs())]
        for batch in self.workload.feed_of("train"):  # never the test set, which measures the accuracy
            inputs = self._inputs(batch)
            if [tensor.shape for tensor in tensors_of(inputs)] == shapes:
                samples.append(inputs)
                num += self.workload.task.num_samples(batch)
            if num >= MIN_CALIBRATED:
                break
        if not samples:
            raise UnsupportedError(
                "precision=int8: calibration needs a full batch of the training set: lower batch_size"
            )
        return samples, num

    def load(self, exported: Path) -> None:
        """Loads the network from the folder `exported`."""
        self.artifact = artifact = Artifact(**json.loads((exported / FILE).read_text()))
        self.path = exported / artifact.file
        _, load_s = _timed(self.compiler.load, self.path)
        if self.backend.flushes_denormals:
            flush_denormals()  # again, because an engine may have reset this thread
        self.backend.count_compiles = lambda: (1, artifact.compile_s + load_s)

    def _step(self, compiler: Compiler) -> InferStep:
        program = Program(compiler, self.workload.task, self.backend, self.precision)  # type: ignore[arg-type]
        return InferStep(program, self.feed)

    def new_step(self) -> InferStep:
        return self._step(self.compiler)

    def further_step(self) -> InferStep:
        further = compiler_of(self.cell)
        further.load(self.path)
        return self._step(further)

    def observe(self) -> Observed:
        ran = self.ran = self.compiler.ran(self._inputs())
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
        nums: Counter[tuple[bool, bool]] = Counter()  # (is right, is right in fp32) -> samples
        with new_tensors_in(torch.float32):
            network = self.workload.build().eval()
            task = ImageTask(torch.float32)
            began = time.monotonic()
            for start in range(0, len(arrays.labels), size):
                labels = torch.from_numpy(arrays.labels[start : start + size]).long()
                images = torch.from_numpy(arrays.images[start : start + size])
                full = images[torch.arange(size) % len(images)]  # fills a short last batch up
                right = task.answers(self.step.compute((full,))[0].float())[: len(labels)] == labels
                fp32_right = task.answers(network(task.inputs(images))) == labels
                nums.update(zip(right.tolist(), fp32_right.tolist(), strict=True))
                if time.monotonic() - began > MAX_ASKED_S:
                    break
        return Answers(
            num_samples=nums.total(),
            num_right=nums[True, True] + nums[True, False],
            num_fp32_right=nums[True, True] + nums[False, True],
            num_won=nums[True, False],
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
