"""A cell's run by an engine that compiles a network of PyTorch: inference on the CPU."""

import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from accelbench.data.arrays import load_split
from accelbench.devices.cpu import FAST_INTEGERS, has_any
from accelbench.devices.registry import look
from accelbench.engines.cell_run import CellRun, Observed
from accelbench.engines.exported.build import BuiltNetwork, call_of, cpu_of
from accelbench.engines.exported.compiler import Compiler, Ran
from accelbench.engines.exported.export import Artifact, export_given, read
from accelbench.engines.formats import INTEGERS, word_for
from accelbench.engines.lightning import zoo
from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.denormals import NOT_SET
from accelbench.engines.lightning.feed import Feed
from accelbench.engines.lightning.global_state import new_tensors_in
from accelbench.engines.lightning.module import BenchModule
from accelbench.engines.lightning.outputs import all_finite, described
from accelbench.engines.lightning.precision import STORED_DTYPES
from accelbench.engines.lightning.profiler import MAX_OPERATORS
from accelbench.engines.lightning.structure import (
    arguments,
    copied_into,
    keys_of_rows,
    mapped,
    mixed,
    num_rows,
    on_host,
    reordered,
)
from accelbench.engines.lightning.task import ImageTask
from accelbench.engines.lightning.training import training_in_inference
from accelbench.engines.lightning.work import count
from accelbench.engines.lightning.workload import Workload
from accelbench.measuring.breakdown import has_time
from accelbench.measuring.outputs import Output
from accelbench.measuring.promises import Products, check_timed
from accelbench.measuring.replay import num_batches, replay, usual_longest
from accelbench.measuring.runner import Watch
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Answers, Measurement, Operator, Work
from accelbench.schema.vocab import Library, Pipeline, Precision, Weights

EXPORTED_ANEW = (
    "its weights or its batch's form are not those that were exported before, since no seed fixes them: the measured "
    "process exported them itself, which is part of its peak of memory"
)


def run(
    cell: Cell, data_folder: Path, compiler: Compiler, work: Work | None = None, exported: Path | None = None
) -> Measurement | None:
    """Runs `cell` in this process, which must have run no other cell.

    Args:
        cell: inference on the CPU.
        data_folder: where the data set's arrays are.
        compiler: the engine.
        work: of one step, if it has been counted already.
        exported: the folder that `export` wrote for the cell in another process; None: it is exported in this one.

    Raises:
        UnsupportedError: the cell can't run, with the reason.
    """
    with tempfile.TemporaryDirectory(prefix="exported-") as own:
        return _Run(cell, data_folder, compiler, exported, Path(own)).measure(work)


class _Run(CellRun):
    """One cell's run, whose steps are calls of the compiled network."""

    backend: Backend
    feed: Feed
    ran: Ran
    step: "_CompiledStep"

    def __init__(self, cell: Cell, data_folder: Path, compiler: Compiler, exported: Path | None, own: Path) -> None:
        super().__init__(cell, data_folder, backend := cpu_of(cell))
        self.given = given = BuiltNetwork(cell, data_folder, backend, compiler.computes_in)
        self.workload, self.feed, self.build_s = given.workload, given.workload.feed, given.build_s
        self.num_params = zoo.num_params(given.network)
        self.compared_on: Any = None  # the batch whose memory the compared inputs take in turn
        self.exported_anew = False
        if exported is not None and (artifact := read(exported)).given == given.digest():
            given.hold()
            given.workload.num_rows = artifact.num_rows
            self._load(compiler, artifact, exported)
        else:
            self.exported_anew = exported is not None
            self._load(compiler, export_given(given, compiler, own), own)

    def _load(self, compiler: Compiler, artifact: Artifact, folder: Path) -> None:
        """Loads the exported network, and notes how long it took until it could run."""
        self.artifact, start = artifact, time.perf_counter()
        self.compiled = compiler.load(folder / artifact.file, artifact.formats, self.cell, torch.get_num_threads())
        compile_s = artifact.compile_s + time.perf_counter() - start
        if self.backend.flushes_denormals:
            self.backend.flush_denormals()  # an engine may have set this thread back
        self.backend.count_compiles = lambda: (1, compile_s)

    def new_step(self) -> "_CompiledStep":
        """Calls the compiled network on one batch after the other."""
        self.step = _CompiledStep(self)
        return self.step

    def watch(self, step: "_CompiledStep") -> Watch:
        return self

    def start(self) -> None:
        """See `Watch`: nothing."""

    @check_timed
    def look(self, batch: Any) -> None:
        rows = self.rows_of(self.workload.num_rows)
        self.timed = batch, described(self.step.result, self.workload.num_rows, rows)

    @check_timed
    def _replay(self) -> None:
        """Unless no input is ever fed twice, or the time would run out."""
        if self.is_one_step or self.timed is None or self.cell.data.pipeline == Pipeline.fresh:
            return
        latency_s = median(self.timing.latency_s)
        if not has_time(latency_s, self.cell.timeout_s):
            return
        fed, num = self.timed[0], num_batches(latency_s)

        def seconds(batches: Sequence[Any]) -> float:
            start = time.perf_counter()
            for batch in batches:
                self.step.compute(batch)
            return time.perf_counter() - start

        self.seen.replayed = replay(
            lambda: [on_host(fed) for _ in range(num)],
            lambda: [self.workload.alike(fed) for _ in range(num)],
            seconds,
            usual_longest(self.timing.latency_s) if num == 1 else None,
            self.unseen_s,
        )

    def observe(self) -> Observed:
        """What ran; then the outputs, each of which takes one more call."""
        ran = self.ran = self.compiled.ran(self.given.call())
        self.operators = _busiest(ran.times)
        self.seen.products = _products(ran.formats)
        self.seen.modes = training_in_inference(self.given.network)
        if self.backend.flushes_denormals and ran.flushes_denormals is False:
            self.defects.append(NOT_SET)
        if not all_finite(self.step.result):
            self.mark_not_finite()
        self.keep_outputs(self.workload.num_rows, self.workload.shapes())
        self._replay()
        return Observed(
            device="cpu",
            device_name=self.device_name(),
            precision=word_for(ran.stored, ran.computed, tf32=False),
            num_devices=1,
            threads=ran.threads,
            work=self.work_of_step(self._work),
            export_s=self.artifact.export_s,
            quantize_s=self.artifact.quantize_s,
            artifact_bytes=self.artifact.num_bytes,
            formats=ran.formats,
            answers=self._answers(),
        )

    def _answers(self) -> Answers | None:
        if self.is_one_step or not has_answers(self.cell):
            return None
        with new_tensors_in(torch.float32):
            return compared(
                self.cell, self.data_folder, self.workload, lambda batch: self.step.compute(batch)[0].float()
            )

    def _work(self) -> Work:
        """Of the network that was exported, in the precision of the cell: one product is as much work everywhere."""
        given = self.given
        precision = given.precision if given.quantizes else self.cell.precision
        dtype = STORED_DTYPES[precision]
        batch = mapped(
            self.workload.some_batch(), lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor
        )
        module = BenchModule(given.network, self.cell.model, self.workload.task, self.backend)
        found = count(module, batch, precision, train=False)
        # How many bytes a quantised network moves depends on which of its operators are.
        return replace(found, bytes=None) if given.quantizes else found

    @property
    def is_reference(self) -> bool:
        return False

    def compared_inputs(self) -> tuple[Any, Any]:
        fed = self.workload.example() if self.timed is None else on_host(self.timed[0])
        return fed, self.workload.unseen()

    def reordered_inputs(self, batch: Any, order: Sequence[int]) -> Any:
        return reordered(batch, order) if num_rows(batch) == len(order) else None

    def mixed_inputs(self, batch: Any, other: Any, rows: Sequence[int]) -> Any:
        return mixed(batch, other, rows) if num_rows(batch) == self.workload.num_rows else None

    def inputs_of_rows(self, batch: Any, rows: Sequence[int]) -> list[int]:
        """Hashes of them."""
        return keys_of_rows(self.workload.task.infer(arguments, batch), rows, self.workload.num_rows)  # type: ignore[arg-type]

    def measured_output(self, batch: Any, rows: Sequence[int]) -> Output:
        """From a further call, whose inputs are copied over those of the last one: they keep their addresses."""
        if self.compared_on is None or not copied_into(self.compared_on, batch):
            self.compared_on = on_host(batch)
        return described(self.step.compute(self.compared_on), self.workload.num_rows, rows)

    @property
    def num_reference_rows(self) -> int:  # type: ignore[override]
        """Those of the workload."""
        return self.workload.num_reference_rows

    def reference_outputs(
        self, batches: Sequence[Any], *, other: bool = False, precision: Precision | None = None
    ) -> list[Output]:
        with new_tensors_in(torch.float32):
            return self.workload.reference(batches, self.rows, other=other, precision=precision)

    def notes(self) -> Iterator[str]:
        """How the batches are used, and what the user's code set in vain."""
        yield from self.workload.notes()
        yield from dict.fromkeys([*self.artifact.notes, *self.backend.notes()])
        if self.exported_anew:
            yield EXPORTED_ANEW
        if self.given.quantizes:
            of_set = self.cell.data.pipeline in (Pipeline.array, Pipeline.jpeg)
            where = "the training set" if of_set else "the kind that was measured"
            fast = has_any(look(self.cell.device), FAST_INTEGERS)
            found = how_quantized(self.ran.formats, self.ran.times, fast_integers=fast)
            yield f"int8: {found}; calibrated on {self.artifact.num_calibrated} samples of {where}"
            if self.output_error is not None:
                more = "" if has_answers(self.cell) else "; accuracy was not measured (model.weights= has weights)"
                yield f"int8: the output differs from fp32's by {100 * self.output_error:.1f} %{more}"

    def warnings(self) -> Iterator[str]:
        # PyTorch may have computed in another format than the engine, whose denormal numbers are others.
        if self.given.precision == self.cell.precision and not self.is_one_step:
            yield from self.artifact.denormals

    def tokens_per_sample(self) -> float | None:
        return self.workload.tokens_per_sample()


def _busiest(times: Sequence[tuple[str, float]]) -> list[Operator]:
    """The operators that take most of the time, longest first."""
    seconds: dict[str, float] = defaultdict(float)
    for name, took_s in times:
        seconds[name] += took_s
    calls, total = Counter(name for name, _ in times), sum(seconds.values())
    names = sorted(seconds, key=seconds.__getitem__, reverse=True)[:MAX_OPERATORS]
    return [Operator(name=name, num_calls=calls[name], share=seconds[name] / total) for name in names if seconds[name]]


def _products(formats: Mapping[str, int]) -> Products:
    """How many matrix products compute in each format: the engines do not say how large each of them is."""
    nums: Counter[str] = Counter()
    for name, num in formats.items():
        nums[Precision.int8 if name in INTEGERS else name] += num
    return Products(flops=dict(nums), of="matrix products (each counted as one)")


class _CompiledStep:
    """A call of the compiled network, in the parts that the clock times. See `measuring.runner.Step`."""

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


MAX_S = 20.0  # that asking may take; the test set's first samples have to do then

# Libraries of networks that classify images.
CLASSIFYING = frozenset({Library.accelbench, Library.timm, Library.torchvision})


def has_answers(cell: Cell) -> bool:
    """Whether the cell's network was trained, and classifies images whose classes are known."""
    trained = cell.model.weights != Weights.none and cell.data.pipeline in (Pipeline.array, Pipeline.jpeg)
    return trained and cell.model.library in CLASSIFYING and not cell.model.is_own("autoencoder")


@torch.no_grad()
def compared(
    cell: Cell, data_folder: Path, workload: Workload, measured: Callable[[Any], Tensor], max_s: float = MAX_S
) -> Answers:
    """Asks both on the test set, in whole batches.

    Args:
        cell: with `has_answers`.
        data_folder: where the data set's arrays are.
        workload: of the cell.
        measured: a whole batch of images, as a feed gives it -> the logits of what was measured.
        max_s: seconds after which no more batches are asked.
    """
    pl.seed_everything(cell.seed, verbose=False)
    network, task = workload.build().eval(), ImageTask(torch.float32)
    arrays = load_split(data_folder, "test")
    size, began = cell.batch_size, time.monotonic()
    num = num_right = num_fp32_right = num_won = 0
    for start in range(0, len(arrays.labels), size):
        labels = torch.from_numpy(arrays.labels[start : start + size]).long()
        images = torch.from_numpy(arrays.images[start : start + size])
        whole = images[torch.arange(size) % len(images)]  # a short last batch is filled up: the shape is compiled
        right = task.answers(measured((whole,)))[: len(labels)] == labels
        fp32_right = task.answers(network(task.inputs(images))) == labels
        num += len(labels)
        num_right += int(right.sum())
        num_fp32_right += int(fp32_right.sum())
        num_won += int((right & ~fp32_right).sum())
        if time.monotonic() - began > max_s:
            break
    return Answers(num_samples=num, num_right=num_right, num_fp32_right=num_fp32_right, num_won=num_won)


# Parts of the names of operators that convert between integers and floating-point numbers.
CONVERSIONS = ("quantize", "convert", "reorder")


def how_quantized(formats: Mapping[str, int], times: Sequence[tuple[str, float]], *, fast_integers: bool) -> str:
    """How much of a network was quantised, and what keeps it from being faster.

    Args:
        formats: of its matrix products: NumPy's name -> how many.
        times: of the operators of one call, with the seconds of each; may be empty.
        fast_integers: whether the CPU multiplies integers faster than fp32.
    """
    num_integers = sum(num for name, num in formats.items() if name in INTEGERS)
    parts = [f"{num_integers} of {sum(formats.values())} matrix products multiply integers"]
    total = sum(seconds for _, seconds in times)
    converting = sum(seconds for name, seconds in times if any(word in name.lower() for word in CONVERSIONS))
    if total:
        parts.append(f"converting between formats takes {100 * (converting / total):.0f} % of a call")
    if not fast_integers:
        parts.append("this CPU has no instructions for int8 (VNNI or AMX), so that it gains little")
    return "; ".join(parts)
