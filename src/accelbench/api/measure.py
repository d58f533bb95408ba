"""`accelbench.measure` measures the user's network or function in a fresh process, like a cell."""

import atexit
import copyreg
import dataclasses
import inspect
import io
import os
import pickle
import re
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

import cloudpickle

from accelbench import lock
from accelbench.api import html
from accelbench.devices.registry import look
from accelbench.engines.registry import HostSpec, host_spec
from accelbench.errors import InvalidError, UnknownChoiceError, UserError
from accelbench.grid import fingerprint, support
from accelbench.isolation.hosts import Hosts
from accelbench.isolation.messages import Outcome
from accelbench.judging.row import remarks_in, summarise, tails, warnings_of
from accelbench.judging.verdict import ALLOWED, BUSY, judge
from accelbench.judging.warnings import Kind
from accelbench.presentation import significant
from accelbench.project import SENT, workplace
from accelbench.schema import measurement as schema
from accelbench.schema import vocab
from accelbench.schema.ceilings import ceilings_in, read_ceilings
from accelbench.schema.cell import Cell, Options, Window
from accelbench.schema.record import Record, Row, number_of
from accelbench.schema.serialize import load, plain
from accelbench.schema.text import one_line
from accelbench.schema.workload import DataSpec, ModelSpec

DEVICES = (vocab.Device.cpu, vocab.Device.gpu)
OPTIMIZERS = ("adam", "adamw", "sgd")
TIMEOUT_S = 60.0  # most of it is for comparing the output with that of fp32 on the CPU
OF_NETWORKS = ("batch", "mode", "precision", "loss", "optimizer", "learning_rate")  # arguments that only networks have
SENDER = "accelbench.api.sent"  # module that runs the sent objects
SETTING = re.compile(rf"model\.\w+={re.escape(SENDER)}\.(\w+)")  # a setting in a message, shortened to the argument


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Measurement(html.Figures):
    """The measurement of one network or function. Unknown numbers are None, never 0."""

    name: str  # name that the user chose, else of the network's class or of the function
    device: str  # `cpu` or `gpu`; of a function, the device that was waited for
    device_name: str  # name of the hardware
    mode: str | None  # `infer` or `train`; None for a function
    precision: str | None  # precision that was observed; None for a function
    samples: int  # samples in a step
    # Floating-point operations of one step, counted from its operators. A multiply-add counts as two.
    flops: int | None
    # Share of the device's ceiling that was reached; None if it was not probed (`accelbench doctor --probe`).
    mfu: float | None
    row: Row = dataclasses.field(compare=False)  # the known columns of `cells.csv`
    raw: schema.Measurement = dataclasses.field(compare=False)  # all raw times

    def _lines(self) -> list[list[str]]:
        words = filter(None, [self.mode, self.device, self.precision, f"{self.samples} samples a step"])
        interval = html.interval(self.samples_per_s_low, self.samples_per_s_high)
        lines = [
            [self.name, f"{', '.join(words)}, on {self.device_name}"],
            ["speed", f"{significant(self.samples_per_s, 4)} samples/s (95 % interval: {interval})"],
            ["latency", tails(self.row, "latency")],
        ]
        if self.flops is not None:
            share = "" if self.mfu is None else f", {100 * self.mfu:.1f} % of the device's probed ceiling"
            lines.append(["work", f"{significant(self.flops / 1e9)} GFLOP a step{share}"])
        remarks = {"note": self.notes, "tip": self.tips, "doubt": self.warnings}
        return lines + [[kind, text] for kind, texts in remarks.items() for text in texts]

    def __repr__(self) -> str:
        """Returns a line about the network or function, then a line for each number and each remark."""
        return "\n  ".join(f"{name}: {text}" for name, text in self._lines())

    def _repr_html_(self) -> str:
        """A small table, for notebooks."""
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
    """Measures a `torch.nn.Module` or a function for some seconds. Either may be defined in a notebook.

    The module or function is pickled with cloudpickle, and a copy runs in a fresh process. So nothing changes in the
    current process. `measure` waits until nothing else is measured on this machine. It writes no files. The first call
    starts a process that imports PyTorch. Later calls use the same process, so they start faster.

    Args:
        model_or_function: a module, or a function without arguments. One call of the function is a step. The arguments
            that are described as `for a module` are refused for a function.
        batch: for a module: its input, which is a tensor, a tuple of positional arguments, or a mapping of keyword
            arguments. The first tensor has the shape (samples, ...). Each step copies tensors in host memory to a GPU.
        mode: for a module: `infer`, or `train` (forward pass, loss, backward pass and optimiser step).
        device: `cpu` or `gpu`. For a function, each step ends when this device has finished its work.
        precision: for a module: `fp32`, `bf16`, `fp16`, `fp64`, `tf32`, `bf16_mixed` or `fp16_mixed`. Weights and
            floating-point inputs are cast to it. With a mixed precision, the weights stay fp32, and the module runs
            under autocast.
        loss: for a module with mode `train`: a function of (output, batch) that returns a scalar tensor.
        optimizer: for a module with mode `train`: `adam`, `adamw` or `sgd`.
        learning_rate: for a module with mode `train`: the learning rate of the optimiser.
        samples: the number of samples in a step. If it is None, it is the first dimension of the batch's first tensor
            for a module, and 1 for a function.
        window: how long to measure. None means `Window()`, which takes about three seconds.
        name: the name that is shown. If it is None, it is the name of the class or the function.

    Raises:
        UserError: an argument is wrong, an object can't be pickled, the user's code fails, or this machine does not
            support the device or the precision.
        InvalidError: the device or the precision was not the requested one, or the output is wrong.
    """
    arguments = dict(locals())
    torch = sys.modules.get("torch")  # if torch is not imported, the object is no module
    is_function = torch is None or not isinstance(model_or_function, torch.nn.Module)
    _check_choices(arguments)
    if is_function:
        _check_function(arguments)
        sent = {"function": model_or_function}
        cell = _cell(arguments, model_or_function, [])
    else:
        _check_network(arguments)
        from accelbench.engines.pytorch.structure import tensors_in  # not at the top: it imports torch

        tensors = list(tensors_in(batch))
        if not tensors:
            raise UserError(
                f"batch: should be a tensor, a tuple or a mapping of tensors, not a {type(batch).__name__}: "
                "torch.as_tensor(...) makes tensors"
            )
        # A compiled network can't be pickled. The process compiles it again.
        network = getattr(model_or_function, "_orig_mod", model_or_function)
        sent = {"network": network, "batch": batch, "loss": loss, "samples": samples}
        cell = _cell(arguments, type(network), tensors)
        cell = dataclasses.replace(cell, options=Options(compile=network is not model_or_function))
    try:
        load(Cell, plain(cell))
    except ValueError as problem:
        raise UserError(f"{problem}, such as learning_rate=0.01 and window=accelbench.Window(measure_s=5)") from None
    if (reason := support.why_not(cell, look(cell.device))) is not None:
        raise UserError(reason)
    pickles = {name: _pickled(name, value) for name, value in sent.items() if value is not None}
    started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    start_s = time.perf_counter()
    with lock.hold_measuring(print):
        outcome = _outcome(cell, pickles)
    if outcome.measurement is None:
        error = UserError(SETTING.sub(r"\1", outcome.reason or outcome.status))
        if outcome.error:
            error.add_note(outcome.error)
        raise error
    environment = fingerprint.fingerprint(vocab.Engine.pytorch)
    ceilings = read_ceilings(workplace().cache, environment).get(cell.device.value)
    record = Record(
        cell=cell,
        identity="0" * 8,
        status=vocab.Status.ok,
        started_at=started_at,
        wall_s=time.perf_counter() - start_s,
        # A call does not wait for a quiet machine. Other load becomes a doubt in the result.
        environment={**environment, "ceilings": plain(ceilings), BUSY: ALLOWED},
        measurement=outcome.measurement,
        system=outcome.system,
    )
    return _of_record(record, outcome.measurement, is_function=is_function)


def _check_choices(arguments: dict[str, Any]) -> None:
    target, samples = arguments["model_or_function"], arguments["samples"]
    if isinstance(target, type) or not callable(target):
        raise UserError(
            f"measure: expects a torch.nn.Module, such as Net(), or a function, not {one_line(repr(target)):.60}"
        )
    choices = {"device": DEVICES, "mode": vocab.STEP_MODES, "precision": vocab.NOT_QUANTIZED, "optimizer": OPTIMIZERS}
    for flag, words in choices.items():
        if arguments[flag] not in words:
            raise UnknownChoiceError(flag, arguments[flag], words)
    if samples is not None and (not isinstance(samples, int) or samples < 1):
        raise UserError(f"samples={samples}: should be a whole number, at least 1")


def _check_function(arguments: dict[str, Any]) -> None:
    for flag in OF_NETWORKS:
        value = arguments[flag]
        usual = inspect.signature(measure).parameters[flag].default
        if value is not usual and (usual is None or value != usual):
            raise UserError(
                f"{flag}: is for a torch.nn.Module. For a function, leave it out: measure(lambda: f(batch))"
            )


def _check_network(arguments: dict[str, Any]) -> None:
    if arguments["batch"] is None:
        raise UserError("batch: is missing: give the input of the module, such as batch=torch.rand(8, 3, 32, 32)")
    loss = arguments["loss"]
    fits_mode = callable(loss) if arguments["mode"] == vocab.Mode.train else loss is None
    if not fits_mode:
        raise UserError(
            "loss: mode='train', and only this mode, needs a loss: a function of (output, batch) that returns a scalar"
        )
    # With the defaults, the network would be measured on another device or in another number format than its own.
    weights = arguments["model_or_function"].parameters()
    first = next((weight for weight in weights if weight.is_floating_point()), None)
    if first is not None and first.is_cuda and arguments["device"] == vocab.Device.cpu:
        raise UserError("device='cpu': the network is on a GPU: use device='gpu', or move it with .cpu()")
    if first is not None and first.dtype.itemsize != 4 and arguments["precision"] == vocab.Precision.fp32:
        raise UserError(f"precision='fp32': the network's weights are {first.dtype}: use their precision, or .float()")


def _cell(arguments: dict[str, Any], named: Any, tensors: Sequence[Any]) -> Cell:
    """Returns the cell that measures a function or a network.

    Args:
        named: the object whose name the cell gets if the user chose none.
        tensors: the tensors of the batch. Empty for a function.

    Raises UserError: the number of samples in the batch is unknown.
    """
    name = arguments["name"] or getattr(named, "__name__", type(named).__name__).replace("<lambda>", "function")
    num_samples = arguments["samples"] or 1
    if tensors and not arguments["samples"]:
        num_samples = tensors[0].size(0) if tensors[0].dim() else 0
        if not num_samples:
            shape = tuple(tensors[0].shape)
            raise UserError(f"samples: the number is unknown, because the batch's first tensor has the shape {shape}")
    is_on_gpu = bool(tensors) and all(tensor.is_cuda for tensor in tensors)
    torch = sys.modules.get("torch")
    return Cell(
        suite="",
        engine=vocab.Engine.pytorch,
        device=vocab.Device(arguments["device"]),
        model=ModelSpec(
            name=one_line(name),
            library=vocab.Library.custom,
            network=f"{SENDER}.network",
            factory=True,
            output=vocab.ModelOutput.any,
            batch=f"{SENDER}.batch",
            loss=f"{SENDER}.loss" if arguments["loss"] else None,
            samples=f"{SENDER}.samples" if arguments["samples"] else None,
            optimizer=arguments["optimizer"],
            learning_rate=arguments["learning_rate"],
        ),
        data=DataSpec(name=vocab.RANDOM, pipeline=vocab.Pipeline.device if is_on_gpu else vocab.Pipeline.host),
        mode=vocab.Mode(arguments["mode"]),
        precision=vocab.Precision(arguments["precision"]),
        batch_size=num_samples,
        protocol=vocab.Protocol.window,
        epochs=1,
        window=arguments["window"] or Window(),
        threads=torch.get_num_threads() if torch else None,  # as many as in this process
        timeout_s=TIMEOUT_S,
    )


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """A pickler that also accepts parametrised modules."""

    def reducer_override(self, value: Any) -> Any:
        """Returns a call that creates a copy of `value`, in the form that `pickle` expects."""
        torch = sys.modules.get("torch")
        if torch and isinstance(value, torch.nn.Module) and "parametrizations" in vars(value).get("_modules", ()):
            return copyreg.__newobj__, (type(value),), vars(value)  # type: ignore[attr-defined]
        return super().reducer_override(value)


def _pickled(name: str, value: Any) -> bytes:
    buffer = io.BytesIO()
    try:
        _Pickler(buffer).dump(value)
    except Exception as error:  # code of the user may raise anything
        raise UserError(
            f"{name}: can't be pickled ({type(error).__name__}: {one_line(str(error))}), so `measure` can't copy it "
            "to a fresh process. Create the object in a function and measure this function. A network's class can be "
            "measured with accelbench model=custom model.target=my_package.MyNet"
        ) from error
    return buffer.getvalue()


def _outcome(cell: Cell, sent: dict[str, bytes]) -> Outcome:
    """Measures the sent objects in a fresh process."""
    hosts = _kept_hosts()
    with open(hosts.folder / SENT, "wb") as file:
        pickle.dump((os.getcwd(), sys.path), file)
        pickle.dump(sent, file)
    try:
        return hosts.run(cell, hosts.folder)
    except BaseException:  # such as Ctrl-C, while the hosts still measure
        _kept_hosts.cache_clear()
        hosts.__exit__()
        raise


@cache
def _kept_hosts() -> Hosts:
    """Returns host processes that run until this process ends, so that PyTorch is imported only once."""
    hosts = Hosts(_host_spec)
    hosts.__enter__()
    atexit.register(hosts.__exit__)
    return hosts


def _host_spec(cell: Cell) -> HostSpec:
    spec = host_spec(cell)
    return dataclasses.replace(spec, engine=SENDER, preload=(*spec.preload, SENDER))


def _of_record(record: Record, raw: schema.Measurement, *, is_function: bool) -> Measurement:
    """Returns the result of a record. Raises InvalidError: the requested work did not run, or a number is wrong."""
    cell = record.cell
    if (why := judge(cell, raw, ceilings_in(record.environment))) is not None:
        raise InvalidError(f"{cell.model.name}: {why}")
    row = summarise(record)
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
        warnings=warnings_of(row),
        tips=remarks_in(row, Kind.tip),
        notes=remarks_in(row, Kind.note),
        row=row,
        raw=raw,
        **{name: number_of(row, name) for name in html.numbers(Measurement)},
    )
