"""`accelbench.measure`: a live network or a function, in this process, under the clock of cells."""

import dataclasses
import inspect
import os
import random
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from accelbench import lock
from accelbench.api import html
from accelbench.devices.proc import check_clocks
from accelbench.devices.registry import look
from accelbench.engines.registry import SUBSTITUTING
from accelbench.errors import InvalidError, UnknownChoiceError, UnsupportedError, UserError
from accelbench.grid import fingerprint, support
from accelbench.isolation.processes import Sampler
from accelbench.judging.row import remarks_in, summarise, warnings_of
from accelbench.judging.verdict import ALLOWED, BUSY, judge
from accelbench.judging.warnings import Kind
from accelbench.presentation import significant
from accelbench.project import workplace
from accelbench.schema import measurement as schema
from accelbench.schema import vocab
from accelbench.schema.ceilings import ceilings_in, read_ceilings
from accelbench.schema.cell import Cell, Window
from accelbench.schema.measurement import SystemSeries
from accelbench.schema.record import Record, Row, number_of
from accelbench.schema.serialize import plain
from accelbench.schema.text import one_line
from accelbench.schema.workload import DataSpec, ModelSpec

DEVICES = (vocab.Device.cpu, vocab.Device.gpu)
OPTIMIZERS = ("adam", "adamw", "sgd")
TIMEOUT_S = 60.0  # most of it is for the comparison of the output with fp32's on the CPU
OTHERS = "other_cpu_utilization_percent"
# Environment variables that change the precision in which libraries compute, unseen.
OF_PRECISION = ("ONEDNN", "DNNL", "NVIDIA_TF32", "TORCH_ALLOW")
PRECISION_VARIABLES = sorted(name for name in SUBSTITUTING if name.startswith(OF_PRECISION))
NOT_ISOLATED = "not isolated: measured in a process that does other things"
OF_NETWORKS = ("batch", "mode", "precision", "loss", "optimizer", "learning_rate")  # arguments


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Measurement(html.Figures):
    """One network or function, measured in this process. Unknown numbers are None, never 0."""

    name: str  # of the network's class or the function, or as the user chose it
    device: str  # `cpu` or `gpu`; of a function, the device that was waited for
    device_name: str  # the hardware's name
    mode: str | None  # `infer` or `train`; None for a function
    precision: str | None  # that was observed while it ran; None for a function
    samples: int  # per step
    # Floating-point operations of one step, counted from its operators; a multiply-add counts as two.
    flops: int | None
    # The share of the device's highest rate that was reached; None unless it was probed (`accelbench doctor --probe`).
    mfu: float | None
    row: Row = dataclasses.field(compare=False)  # the columns of `cells.csv` that are known
    raw: schema.Measurement = dataclasses.field(compare=False)  # all raw times

    def _lines(self) -> list[list[str]]:
        words = filter(None, [self.mode, self.device, self.precision, f"{self.samples} samples a step"])
        interval = html.interval(self.samples_per_s_low, self.samples_per_s_high)
        tails = {50: self.latency_p50_ms, 90: self.latency_p90_ms, 99: self.latency_p99_ms}
        lines = [
            [self.name, f"{', '.join(words)}, on {self.device_name}"],
            ["speed", f"{significant(self.samples_per_s, 4)} samples/s (95 % interval: {interval})"],
            ["latency", ", ".join(f"p{percent} {significant(value)} ms" for percent, value in tails.items())],
        ]
        if self.flops is not None:
            share = "" if self.mfu is None else f", {100 * self.mfu:.1f} % of what the device can do, as probed"
            lines.append(["work", f"{significant(self.flops / 1e9)} GFLOP a step{share}"])
        said = {"note": self.notes, "tip": self.tips, "doubt": self.warnings}
        return lines + [[name, text] for name, texts in said.items() for text in texts]

    def __repr__(self) -> str:
        """What was measured, and a line for each figure and doubt."""
        return "\n  ".join(f"{name}: {text}" for name, text in self._lines())

    def _repr_html_(self) -> str:
        """For notebooks: a small table."""
        return html.page([], ["", ""], self._lines())


def measure(
    model_or_function: Any,
    batch: Any = None,
    mode: str = "infer",
    device: str = "cpu",
    precision: str = "fp32",
    *,
    loss: Callable[[Any, Any], Any] | None = None,
    optimizer: str = "adam",
    learning_rate: float = 1e-3,
    samples: int | None = None,
    window: Window | None = None,
    name: str | None = None,
) -> Measurement:
    """Measures a `torch.nn.Module` that lives in this process, or a function, for some seconds.

    A copy of the module runs, so that it stays as it is: weights, buffers, gradients, mode, dtype and device; so do
    PyTorch's settings and the random generators, also after an error or Ctrl-C. A function without arguments is
    measured as it is: each call is a step. It waits until nothing else is measured on the machine, and writes nothing.

    Args:
        model_or_function: the module; or the function, for which what is said of a module is refused.
        batch: what the module is called with: a tensor, a tuple (positional arguments) or a mapping (keywords that
            `forward` takes). Its first tensor has the shape (samples, ...). Tensors in host memory are copied to a GPU
            in each step.
        mode: of a module: `infer`, or `train`: forward pass, loss, backward pass and the optimiser's step.
        device: `cpu` or `gpu`. For a function: what is waited for at the end of a step.
        precision: of a module: `fp32`, `bf16`, `fp16`, `fp64`, `tf32`, `bf16_mixed` or `fp16_mixed`. Weights and
            floating-point inputs are cast to it; mixed: fp32 weights under autocast.
        loss: of a module's training: called with (output, batch), returns a scalar tensor.
        optimizer: of a module's training: `adam`, `adamw` or `sgd`, with the `learning_rate`.
        samples: in a step; None for the first dimension of the batch's first tensor, and 1 for a function.
        window: how long to measure; None for a `Window()`: about three seconds.
        name: for people; None for the name of the class or the function.

    Raises:
        UserError: a mistake in the arguments, or the device or precision is not supported here.
        InvalidError: another device or precision ran than was asked for, or the output is wrong.
    """
    given = model_or_function, batch, mode, device, precision, loss, optimizer, learning_rate, samples, name
    asked = _Asked(*given)
    asked.check()
    cell = asked.cell(window or Window())
    with lock.hold_measuring(print):
        record, raw = _measured(asked, cell)
    return _of_row(_judged(record, raw), record.cell, raw, is_function=asked.is_function)


@dataclasses.dataclass(frozen=True)
class _Asked:
    """The arguments of `measure`, in their order."""

    target: Any
    batch: Any
    mode: str
    device: str
    precision: str
    loss: Callable[[Any, Any], Any] | None
    optimizer: str
    learning_rate: float
    samples: int | None
    name: str | None

    @property
    def is_function(self) -> bool:
        torch = sys.modules.get("torch")  # without it, nothing is a module
        return torch is None or not isinstance(self.target, torch.nn.Module)

    def check(self) -> None:
        """Raises a UserError if an argument is unknown, missing, or means nothing for what is measured."""
        if isinstance(self.target, type) or not callable(self.target):
            raise UserError(f"measure: takes a torch.nn.Module or a function without arguments, not {self.target!r}")
        for flag, value, choices in (
            ("device", self.device, DEVICES),
            ("mode", self.mode, vocab.STEP_MODES),
            ("precision", self.precision, vocab.NOT_QUANTIZED),
            ("optimizer", self.optimizer, OPTIMIZERS),
        ):
            if value not in choices:
                raise UnknownChoiceError(flag, value, choices)
        if self.samples is not None and (not isinstance(self.samples, int) or self.samples < 1):
            raise UserError(f"samples={self.samples}: should be a whole number, at least 1")
        if not self.is_function:
            self._check_network()
            return
        for flag in OF_NETWORKS:
            given, usual = getattr(self, flag), inspect.signature(measure).parameters[flag].default
            if given is not usual and (usual is None or given != usual):
                raise UserError(f"{flag}: goes with a torch.nn.Module; a function decides that itself")

    def _check_network(self) -> None:
        if self.batch is None:
            raise UserError("batch: is missing: what the module is called with, such as a tensor")
        if (self.mode == vocab.Mode.train) != (self.loss is not None):
            raise UserError("loss: a function of (output, batch) that returns a scalar; goes with mode='train' alone")
        # The defaults would measure it elsewhere, or in another format, than it is.
        first = next((each for each in self.target.parameters() if each.is_floating_point()), None)
        if first is not None and first.is_cuda and self.device == vocab.Device.cpu:
            raise UserError("device='cpu': the network is on a GPU: use device='gpu', or move it with .cpu()")
        if first is not None and first.dtype.itemsize != 4 and self.precision == vocab.Precision.fp32:
            raise UserError(f"precision='fp32': the network's weights are {first.dtype}: name that, or use .float()")
        if set_here := [name for name in PRECISION_VARIABLES if os.environ.get(name)]:
            raise UserError(f"{', '.join(set_here)}: it may change the precision unseen: start Python without it")

    def cell(self, window: Window) -> Cell:
        """The cell that is nearest to it; the number of samples may not be known yet. UserError: it can't run here."""
        kind = self.target if self.is_function else type(self.target)
        called = self.name or getattr(kind, "__name__", type(kind).__name__).replace("<lambda>", "function")
        cell = Cell(
            suite="",
            engine=vocab.Engine.pytorch,
            device=vocab.Device(self.device),
            model=ModelSpec(
                name=one_line(called),
                library=vocab.Library.custom,
                network=f"{getattr(kind, '__module__', '')}.{getattr(kind, '__qualname__', called)}",
                output=vocab.ModelOutput.any,
                loss="loss" if self.loss else None,
                optimizer=self.optimizer,
                learning_rate=self.learning_rate,
            ),
            data=DataSpec(name=vocab.OWN_BATCHES, pipeline=vocab.Pipeline.host),
            mode=vocab.Mode(self.mode),
            precision=vocab.Precision(self.precision),
            batch_size=self.samples or 1,
            protocol=vocab.Protocol.window,
            epochs=1,
            window=window,
            timeout_s=TIMEOUT_S,
        )
        check_clocks()
        if (reason := support.why_not(cell, look(cell.device))) is not None:
            raise UserError(reason)
        return cell


def _measured(asked: _Asked, cell: Cell) -> tuple[Record, schema.Measurement]:
    # Only the clock runs between the steps: the machine is looked at before and after.
    environment = fingerprint.fingerprint(vocab.Engine.pytorch)
    started_at, start = datetime.now(UTC).isoformat(timespec="milliseconds"), time.perf_counter()
    sampler = Sampler(os.getpid())
    generator = random.getstate()
    # They import torch, which draws a random number.
    from accelbench.api.live import measure_function, measure_network

    random.setstate(generator)
    try:
        if asked.is_function:
            measurement = measure_function(asked.target, cell)
        else:
            cell, measurement = measure_network(asked.target, asked.batch, asked.loss, asked.samples, cell)
    except UnsupportedError as error:
        raise UserError(str(error)) from error
    sampler.sample()
    found = read_ceilings(workplace().cache, environment).get(cell.device.value)
    # Of the whole process: what it had before is not the model's.
    measurement = dataclasses.replace(measurement, peak_host_bytes=None, peak_device_bytes=None)
    # What other processes used of the machine, as one value for the whole measurement.
    steady, others = measurement.steady_boot_s, sampler.series().values.get(OTHERS, [])[-1:]
    load = {OTHERS: others} if others else {}
    record = Record(
        cell=cell,
        identity="0" * 8,
        status=vocab.Status.ok,
        started_at=started_at,
        wall_s=time.perf_counter() - start,
        # The numbers of a process that does other things are warned of, however busy the machine was.
        environment={**environment, "ceilings": plain(found), BUSY: ALLOWED},
        measurement=measurement,
        system=SystemSeries(started_boot_s=steady[0], t_s=[0.0], values=load) if steady and load else None,
    )
    return record, measurement


def _judged(record: Record, measurement: schema.Measurement) -> Row:
    """The row of the record; an InvalidError if its numbers are not those of what was asked for."""
    name = record.cell.model.name
    if (why := judge(record.cell, measurement)) is not None:
        raise InvalidError(f"{name}: {why}")
    if (why := judge(record.cell, measurement, ceilings_in(record.environment))) is not None:
        wrong = "if `accelbench doctor --probe` finds no higher ceiling, the number is wrong"
        raise InvalidError(f"{name}: {why}; {wrong}")
    return summarise(record)


def _of_row(row: Row, cell: Cell, raw: schema.Measurement, *, is_function: bool) -> Measurement:
    if is_function:
        row |= dict.fromkeys(("precision", "mode", "num_params"))
    return Measurement(
        name=cell.model.name,
        device=raw.device,
        device_name=raw.device_name,
        mode=None if is_function else cell.mode.value,
        precision=None if is_function else raw.precision,
        samples=cell.batch_size,
        flops=raw.work.flops if raw.work else None,
        warnings=[*warnings_of(row), NOT_ISOLATED],
        tips=remarks_in(row, Kind.tip),
        notes=remarks_in(row, Kind.note),
        row=row,
        raw=raw,
        **{name: number_of(row, name) for name in (*html.NUMBERS, "mfu")},
    )
