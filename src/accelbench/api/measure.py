"""`accelbench.measure` measures the user's network or function in a fresh process, like a cell."""

import atexit
import copyreg
import dataclasses
import io
import os
import pickle
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any

import cloudpickle

from accelbench import lock
from accelbench.answers.cells import Process, cells_of
from accelbench.api.results import Result
from accelbench.devices.registry import look
from accelbench.engines.registry import HostSpec, host_spec
from accelbench.errors import InvalidError, UnknownChoiceError, UserError
from accelbench.grid import fingerprint, support
from accelbench.isolation.child import Outcome
from accelbench.isolation.hosts import Hosts
from accelbench.judging.verdict import ALLOWED, BUSY, judge
from accelbench.project import SENT, workplace
from accelbench.schema.ceilings import ceilings_in, read_ceilings
from accelbench.schema.cell import (
    NOT_QUANTIZED,
    RANDOM,
    STEP_MODES,
    Cell,
    DataSpec,
    Device,
    Engine,
    Library,
    Mode,
    ModelOutput,
    ModelSpec,
    Options,
    Pipeline,
    Precision,
    Protocol,
    Status,
    Window,
)
from accelbench.schema.record import Record
from accelbench.schema.serialize import load, plain
from accelbench.schema.text import one_line

DEVICES = (Device.cpu, Device.gpu)
OPTIMIZERS = ("adam", "adamw", "sgd")
TIMEOUT_S = 60.0  # most of it is for comparing the output with that of fp32 on the CPU
SENDER = "accelbench.api.sent"  # module that runs the sent objects
# A setting in a message, shortened to the argument.
SETTING = re.compile(rf"model\.\w+={re.escape(SENDER)}\.(\w+)")


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
) -> Result:
    """Measures a `torch.nn.Module` or a function for some seconds. Either may be defined in a notebook.

    The module or function is pickled with cloudpickle, and a copy runs in a fresh process. So nothing changes in the
    current process. `measure` waits until nothing else is measured on this machine. It writes no files. The first call
    starts a process that imports PyTorch. Later calls use the same process, so they start faster.

    Args:
        model_or_function: a module, or a function without arguments. One call of the function is a step. The arguments
            that are described as `for a module` have no meaning for a function.
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
    choices = (
        ("device", device, DEVICES),
        ("mode", mode, STEP_MODES),
        ("precision", precision, NOT_QUANTIZED),
        ("optimizer", optimizer, OPTIMIZERS),
    )
    for flag, word, words in choices:
        if word not in words:
            raise UnknownChoiceError(flag, word, words)
    torch = sys.modules.get("torch")  # if torch is not imported, the object is no module
    is_function = torch is None or not isinstance(model_or_function, torch.nn.Module)
    sent = {"function": model_or_function}
    named = model_or_function
    num_samples = 1
    is_compiled = False
    pipeline = Pipeline.host
    if is_function:
        if batch is not None or loss is not None or (mode, precision) != ("infer", "fp32"):
            raise UserError(
                "measure: batch, mode, precision and loss need an object of torch.nn.Module, such as Net()"
            )
    else:
        from accelbench.engines.pytorch.structure import tensors_in  # not at the top: it imports torch

        tensors = list(tensors_in(batch))
        if not tensors:
            raise UserError(
                f"batch: should be a tensor, a tuple or a mapping of tensors, not a {type(batch).__name__}: "
                "torch.as_tensor(...) makes tensors"
            )
        if (loss is None) == (mode == Mode.train):
            raise UserError(
                "loss: mode='train', and only this mode, needs a loss: a function of (output, batch) that returns a "
                "scalar"
            )
        _check_weights(model_or_function, device, precision)
        num_samples = tensors[0].size(0) if tensors[0].dim() else 0
        if all(tensor.is_cuda for tensor in tensors):
            pipeline = Pipeline.device
        # A compiled network can't be pickled. The process compiles it again.
        network = getattr(model_or_function, "_orig_mod", model_or_function)
        is_compiled = network is not model_or_function
        named = type(network)
        sent = {"network": network, "batch": batch, "loss": loss, "samples": samples}
    cell = Cell(
        suite="",
        engine=Engine.pytorch,
        device=Device(device),
        model=ModelSpec(
            name=one_line(name or str(getattr(named, "__name__", type(named).__name__))),
            library=Library.custom,
            network=f"{SENDER}.network",
            factory=True,
            output=ModelOutput.any,
            batch=f"{SENDER}.batch",
            loss=f"{SENDER}.loss" if loss else None,
            samples=None if samples is None else f"{SENDER}.samples",
            optimizer=optimizer,
            learning_rate=learning_rate,
        ),
        data=DataSpec(name=RANDOM, pipeline=pipeline),
        mode=Mode(mode),
        precision=Precision(precision),
        batch_size=num_samples if samples is None else samples,
        protocol=Protocol.window,
        epochs=1,
        options=Options(compile=is_compiled),
        window=window or Window(),
        threads=torch.get_num_threads() if torch else None,  # as many as in this process
        timeout_s=TIMEOUT_S,
    )
    try:
        load(Cell, plain(cell))
    except ValueError as problem:
        raise UserError(f"measure: {problem}".replace("batch_size", "samples")) from None
    if (reason := support.why_not(cell, look(cell.device))) is not None:
        raise UserError(reason)
    return _measured(
        cell, {argument: _pickled(argument, value) for argument, value in sent.items()}, is_function
    )


def _check_weights(network: Any, device: str, precision: str) -> None:
    """Raises UserError if a default would measure the network on another device or in another number format."""
    weights = next((weight for weight in network.parameters() if weight.is_floating_point()), None)
    if weights is not None:
        is_elsewhere = weights.is_cuda and device == Device.cpu
        if is_elsewhere or (weights.dtype.itemsize != 4 and precision == Precision.fp32):
            raise UserError(
                f"device={device!r}, precision={precision!r}: the network's weights are {weights.dtype} on "
                f"{weights.device}: measure it there and so, or use .cpu() and .float()"
            )


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """A pickler that also accepts parametrised modules."""

    def reducer_override(self, value: Any) -> Any:
        """Returns a call that creates a copy of `value`, in the form that `pickle` expects."""
        torch = sys.modules.get("torch")
        if (
            torch
            and isinstance(value, torch.nn.Module)
            and "parametrizations" in vars(value).get("_modules", ())
        ):
            return copyreg.__newobj__, (type(value),), vars(value)  # type: ignore[attr-defined]
        return super().reducer_override(value)


def _pickled(argument: str, value: Any) -> bytes:
    buffer = io.BytesIO()
    try:
        _Pickler(buffer).dump(value)
    except Exception as error:  # code of the user may raise anything
        raise UserError(
            f"{argument}: can't be pickled ({type(error).__name__}: {one_line(str(error))}), so `measure` can't copy "
            "it to a fresh process. Create the object in a function and measure this function. A network's class can "
            "be measured with accelbench model=custom model.target=my_package.MyNet"
        ) from error
    return buffer.getvalue()


def _measured(cell: Cell, pickles: dict[str, bytes], is_function: bool) -> Result:
    """Measures the pickled objects. Raises InvalidError: the requested work did not run, or a number is wrong."""
    started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    start_s = time.perf_counter()
    with lock.hold_measuring(print):
        outcome = _outcome(cell, pickles)
    if outcome.measurement is None:
        error = UserError(SETTING.sub(r"\1", outcome.reason or outcome.status))
        if outcome.error:
            error.add_note(outcome.error)
        raise error
    environment = fingerprint.fingerprint(Engine.pytorch)
    ceilings = read_ceilings(workplace().cache, environment).get(cell.device.value)
    record = Record(
        cell=cell,
        identity="0" * 8,
        label=cell.model.name,
        status=Status.ok,
        started_at=started_at,
        wall_s=time.perf_counter() - start_s,
        # A call does not wait for a quiet machine. Other load becomes a doubt in the result.
        environment={**environment, "ceilings": plain(ceilings), BUSY: ALLOWED},
        measurement=outcome.measurement,
        system=outcome.system,
    )
    if (why := judge(cell, outcome.measurement, ceilings_in(record.environment))) is not None:
        raise InvalidError(f"{cell.model.name}: {why}")
    (measured,) = cells_of([Process.of(record)])
    if is_function:
        measured.row.update(dict.fromkeys(("precision", "mode", "num_params")))  # these are unknown
    return Result(measured)


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
