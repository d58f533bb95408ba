"""A cell's run by an engine that compiles a network of PyTorch: inference on the CPU."""

import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from accelbench.devices.cpu import FAST_INTEGERS, has_any, usable_cores
from accelbench.devices.registry import look
from accelbench.engines.cell_run import CellRun
from accelbench.engines.exported import quantization
from accelbench.engines.exported.answers import compared, has_answers
from accelbench.engines.exported.compiler import Compiler, Ran
from accelbench.engines.exported.network import Call, call_of
from accelbench.engines.formats import word_for
from accelbench.engines.lightning import zoo
from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.busiest import MAX_OPERATORS
from accelbench.engines.lightning.denormals import NOT_SET, Denormals
from accelbench.engines.lightning.feed import Feed
from accelbench.engines.lightning.global_state import use_threads
from accelbench.engines.lightning.module import BenchModule
from accelbench.engines.lightning.outputs import all_finite, described
from accelbench.engines.lightning.precision import STORED_DTYPES
from accelbench.engines.lightning.ranks import Ranks
from accelbench.engines.lightning.structure import mapped
from accelbench.engines.lightning.trainer import hush_lightning
from accelbench.engines.lightning.work import count
from accelbench.engines.lightning.workloads import workload_of
from accelbench.engines.observed import Observed
from accelbench.errors import UnsupportedError
from accelbench.measuring.output_check import Output
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Answers, Measurement, Operator
from accelbench.schema.vocab import QUANTIZED, Pipeline, Precision
from accelbench.schema.work import Work

MIN_CALIBRATED = 128  # samples, in whole batches


def run(cell: Cell, data_folder: Path, compiler: Compiler, work: Work | None = None) -> Measurement | None:
    """Runs `cell` in this process, which must have run no other cell.

    Args:
        cell: inference on the CPU.
        data_folder: where the data set's arrays are.
        compiler: the engine.
        work: of one step, if it has been counted already.

    Raises:
        UnsupportedError: the cell can't run, with the reason.
    """
    hush_lightning()
    use_threads(usable_cores() if cell.threads is None else cell.threads)
    backend = Backend()
    backend.prepare(allow_tf32=False)
    if cell.options.flush_denormals:
        backend.flush_denormals()
    with tempfile.TemporaryDirectory(prefix="exported-") as folder:
        return _Run(cell, data_folder, backend, compiler, Path(folder)).measure(work)


class _Run(CellRun):
    """One cell's run, whose steps are calls of the compiled network."""

    backend: Backend
    feed: Feed
    ran: Ran
    quantize_s: float | None

    def __init__(self, cell: Cell, data_folder: Path, backend: Backend, compiler: Compiler, folder: Path) -> None:
        super().__init__(cell, data_folder, backend)
        self.quantizes = cell.precision in QUANTIZED
        self.given = compiler.computes_in or (Precision.fp32 if self.quantizes else cell.precision)
        self.workload = workload_of(replace(cell, precision=self.given), data_folder, backend, Ranks(1))
        self.feed = self.workload.feed
        start = time.perf_counter()
        pl.seed_everything(cell.seed, verbose=False)
        network = self.workload.build().eval().to(STORED_DTYPES[self.given])
        self.num_params = zoo.num_params(network)
        if cell.options.channels_last:
            self.workload.check_layout()
            network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.network = network
        self.num_calibrated, self.quantize_s = 0, None
        self.build_s = time.perf_counter() - start
        self.denormals = Denormals()
        self._run_in_torch()
        backend.hold(STORED_DTYPES[self.given])
        self._compile(compiler, folder)

    def _run_in_torch(self) -> None:
        """Checks the network's output, and looks for denormal numbers: what is compiled does not show its layers'."""
        is_alike = self.given == self.cell.precision  # else the engine computes in another format than PyTorch here
        looks = is_alike and not self.is_one_step and not self.backend.flushes_denormals
        if looks:
            self.denormals.look_at_weights(self.network)
        with torch.no_grad(), self.denormals.looking_at_outputs(self.network) if looks else nullcontext():
            self.workload.check_first(self.workload.task.infer(self.network, self.workload.example()))

    def _call(self) -> Call:
        """A call with a whole batch."""
        call: Call = self.workload.task.infer(call_of, self.workload.example())  # type: ignore[arg-type]
        return call

    def _compile(self, compiler: Compiler, folder: Path) -> None:
        """Exports and compiles the network, and notes how long each took."""
        call = self._call()
        threads = torch.get_num_threads()
        start = time.perf_counter()
        exported = compiler.export(self.network, call, folder)
        self.export_s = time.perf_counter() - start
        if self.quantizes:
            exported = self._quantized(compiler, exported, folder)
        compiling = time.perf_counter()
        self.compiled = compiler.compile(exported, self.cell, threads, folder)
        compile_s = time.perf_counter() - compiling
        if self.backend.flushes_denormals:
            self.backend.flush_denormals()  # an engine may have set this thread back
        self.artifact_bytes = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
        self.backend.count_compiles = lambda: (1, compile_s)

    def _quantized(self, compiler: Compiler, exported: Any, folder: Path) -> Any:
        """The exported network with int8 products, calibrated on the cell's data."""
        task, calls = self.workload.task, []
        shapes = [tensor.shape for tensor in self._call().tensors()]
        for batch in self.workload.calibration():
            call: Call = task.infer(call_of, batch)  # type: ignore[arg-type]
            if [tensor.shape for tensor in call.tensors()] == shapes:
                calls.append(call)
                self.num_calibrated += task.num_samples(batch)
            if self.num_calibrated >= MIN_CALIBRATED:
                break
        if not calls:
            raise UnsupportedError("precision=int8: the training set has no whole batch to calibrate with")
        start = time.perf_counter()
        found = compiler.quantized(exported, calls, folder)
        self.quantize_s = time.perf_counter() - start
        return found

    def new_step(self) -> "_CompiledStep":
        """Calls the compiled network on one batch after the other."""
        self.step = _CompiledStep(self)
        return self.step

    def observe(self) -> Observed:
        """What ran; then the outputs, each of which takes one more call."""
        ran = self.ran = self.compiled.ran(self._call())
        self.operators = _busiest(ran.times)
        if self.backend.flushes_denormals and ran.flushes_denormals is False:
            self.defects.append(NOT_SET)
        if not all_finite(self.step.result):
            self.mark_not_finite()
        self.keep_outputs(self.workload.num_rows, self.workload.shapes())
        return Observed(
            device="cpu",
            device_name=self.device_name(),
            precision=word_for(ran.stored, ran.computed, tf32=False),
            num_devices=1,
            threads=ran.threads,
            work=self.work_of_step(self._work),
            export_s=self.export_s,
            quantize_s=self.quantize_s,
            artifact_bytes=self.artifact_bytes,
            formats=ran.formats,
            answers=self._answers(),
        )

    def _answers(self) -> Answers | None:
        if self.is_one_step or not has_answers(self.cell):
            return None
        return compared(self.cell, self.data_folder, self.workload, lambda batch: self.step.compute(batch)[0].float())

    def _work(self) -> Work:
        """Of the network that was exported, in the precision of the cell: one product is as much work everywhere."""
        precision = self.given if self.quantizes else self.cell.precision
        dtype = STORED_DTYPES[precision]
        batch = mapped(
            self.workload.some_batch(), lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor
        )
        module = BenchModule(self.network, self.cell.model, self.workload.task, self.backend)
        found = count(module, batch, precision, train=False)
        # How many bytes a quantised network moves depends on which of its operators are.
        return replace(found, bytes=None) if self.quantizes else found

    @property
    def is_reference(self) -> bool:
        """Never: the reference is PyTorch."""
        return False

    def compared_inputs(self) -> tuple[Any, Any]:
        """In host memory."""
        return self.workload.compared()

    def measured_outputs(self, batches: Sequence[Any]) -> list[Output]:
        """From further calls, of the batch size that was measured."""
        workload = self.workload
        outputs = []
        for inputs in batches:
            result = [tensor.clone() for tensor in self.step.compute(workload.whole(inputs))]
            outputs.append(described(result, workload.num_rows, workload.rows(inputs)))
        return outputs

    def reference_outputs(self, batches: Sequence[Any]) -> list[Output]:
        """From the cell's network, built again."""
        return self.workload.reference(batches)

    def notes(self) -> Iterator[str]:
        """How the batches are used, and what the user's code set in vain."""
        yield from self.workload.notes()
        yield from self.backend.notes()
        if self.quantizes:
            of_set = self.cell.data.pipeline in (Pipeline.array, Pipeline.jpeg)
            where = "the training set" if of_set else "the kind that was measured"
            fast = has_any(look(self.cell.device), FAST_INTEGERS)
            found = quantization.described(self.ran.formats, self.ran.times, fast_integers=fast)
            yield f"int8: {found}; calibrated on {self.num_calibrated} samples of {where}"
            if self.output_error is not None:
                more = "" if has_answers(self.cell) else "; accuracy was not measured (model.weights= has weights)"
                yield f"int8: the output differs from fp32's by {100 * self.output_error:.1f} %{more}"

    def warnings(self) -> Iterator[str]:
        """What slows a CPU down."""
        yield from self.denormals.warnings()

    def tokens_per_sample(self) -> float | None:
        """Of the batches that the network got."""
        return self.workload.tokens_per_sample()


def _busiest(times: Sequence[tuple[str, float]]) -> list[Operator]:
    """The operators that take most of the time, longest first."""
    seconds: dict[str, float] = defaultdict(float)
    for name, took_s in times:
        seconds[name] += took_s
    calls, total = Counter(name for name, _ in times), sum(seconds.values())
    names = sorted(seconds, key=seconds.__getitem__, reverse=True)[:MAX_OPERATORS]
    return [Operator(name=name, num_calls=calls[name], share=seconds[name] / total) for name in names if seconds[name]]


class _CompiledStep:
    """A call of the compiled network, in the parts that the clock times. See `measuring.step.Step`."""

    def __init__(self, cell_run: _Run) -> None:
        self.batches, self.task = iter(cell_run.feed), cell_run.workload.task
        self.compiled = cell_run.compiled
        self.result: Sequence[Tensor]

    def fetch(self) -> Any:
        """The next batch."""
        return next(self.batches)

    def copy_in(self, batch: Any) -> Any:
        """Nothing is copied: the network computes in host memory."""
        return batch

    def compute(self, batch: Any) -> Sequence[Tensor]:
        """The output's tensors."""
        self.result = ()  # frees the last ones, as in a loop that drops outputs
        self.result = self.compiled(self.task.infer(call_of, batch))  # type: ignore[arg-type]
        return self.result

    def copy_out(self, result: object) -> None:
        """Nothing is copied."""

    def num_samples(self, batch: Any) -> int:
        """Samples in the batch."""
        return self.task.num_samples(batch)
