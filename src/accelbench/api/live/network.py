"""A live network of the user's, measured in its own process with the clock of a cell's process."""

import contextlib
import copy
import dataclasses
import itertools
import logging
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from lightning_fabric.accelerators import XLAAccelerator
from torch import Tensor, nn

from accelbench.engines.cell_run import CellRun, Observed
from accelbench.engines.lightning import zoo
from accelbench.engines.lightning.backends import Backend, backend_for
from accelbench.engines.lightning.global_state import (
    ANOMALIES,
    BENCHMARK,
    CUDNN_DETERMINISTIC,
    DEFAULT_DEVICE,
    DEFAULT_DTYPE,
    DETERMINISTIC,
    new_tensors_in,
    restore,
    snapshot,
    values_of_a_cell,
)
from accelbench.engines.lightning.module import BenchModule, InferStep, TrainStep, new_optimizer
from accelbench.engines.lightning.outputs import all_finite, changed, described, in_precision, seeded, size_of
from accelbench.engines.lightning.own.batch import OwnBatch, OwnTask, taken_keys
from accelbench.engines.lightning.precision import STORED_DTYPES, Observer, plugin_for, step_context
from accelbench.engines.lightning.structure import (
    arguments,
    keys_of_rows,
    mapped,
    mixed,
    num_rows,
    reordered,
    tensors_in,
)
from accelbench.engines.lightning.work import count
from accelbench.errors import UserError
from accelbench.measuring.output_check import Output
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement, Work
from accelbench.schema.vocab import Device, Pipeline, Precision

SAME_INPUTS = "the batch's samples are all equal, so it was not checked that each batch is computed"


# Settings of the process that a measurement may keep, as they do not change the precision -> what one means if it is on
KEPT = {
    DETERMINISTIC: "deterministic algorithms are on",
    CUDNN_DETERMINISTIC: "cuDNN's deterministic algorithms are on",
    BENCHMARK: "cuDNN chooses algorithms by trial",
    ANOMALIES: "anomaly detection is on",
}


def kept() -> Iterator[str]:
    """A warning for each setting of the process that changes how long things take."""
    found = snapshot()
    for name, meaning in KEPT.items():
        if found[name]:
            yield f"{meaning} in this process: {name}"


@contextlib.contextmanager
def as_in_a_fresh_process(torch_type: str, dtype: torch.dtype, *, tf32: bool = False) -> Iterator[None]:
    """Sets what a cell's own process has, and puts the process's state back on leaving.

    Inside, autocast is off, gradients are on, new tensors are `dtype`, cuDNN chooses algorithms by its rules, and fp32
    is computed in full precision, or on a GPU in TF32. Deterministic algorithms and the detection of anomalies stay as
    they are. Put back are these, the random generators, the numbers of threads, and what Lightning and the user's
    network change of them.
    """
    with contextlib.ExitStack() as stack:
        if torch_type == "cuda":  # else no GPU is started
            torch.cuda.init()  # type: ignore[no-untyped-call]
        stack.callback(random.setstate, random.getstate())
        stack.callback(np.random.set_state, np.random.get_state())
        stack.callback(torch.set_rng_state, torch.get_rng_state())
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            stack.callback(torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all())
        stack.callback(setattr, XLAAccelerator, "is_available", vars(XLAAccelerator)["is_available"])
        stack.callback(restore, snapshot())
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())  # type: ignore[no-untyped-call]
        for each in {"cpu", torch_type}:
            stack.enter_context(torch.autocast(each, enabled=False))
        # A default device costs time at each call of torch.
        restore({**values_of_a_cell(allow_tf32=tf32), DEFAULT_DTYPE: dtype, DEFAULT_DEVICE: None})
        yield


def result(run: CellRun) -> Measurement:
    """What a run measures in this single process."""
    measurement = run.measure()
    assert measurement is not None, "a single process has the measurement"
    return measurement


def copy_of(network: nn.Module) -> nn.Module:
    """A copy that shares no weights with the user's network. Raises UserError: the network can't be copied."""
    try:
        copied = copy.deepcopy(network)
    except Exception as error:  # a user's class may raise anything
        raise UserError(
            f"model: it can't be copied, and measuring must not change it ({type(error).__name__}: {error}); a "
            "function that runs it, accelbench.measure(lambda: model(batch), samples=...), is measured as it is"
        ) from error
    places = [
        {tensor.untyped_storage().data_ptr() for tensor in itertools.chain(each.parameters(), each.buffers())} - {0}
        for each in (network, copied)
    ]
    if copied is network or places[0] & places[1]:
        raise UserError(
            "model: its copy shares weights with it, and measuring must not change them: measure a function"
        )
    return copied


def own_batch(batch: Any, samples: int | None, dtype: torch.dtype, device: torch.device) -> OwnBatch:
    """A copy of the user's batch, on `device` and with `dtype` for floating-point numbers.

    Raises:
        UserError: it is no tensor, tuple or mapping of tensors, or the number of samples is unknown.
    """
    tensors = list(tensors_in(batch))
    if not isinstance(batch, Tensor | tuple | list | Mapping) or not tensors:
        raise UserError(f"batch: should be a tensor, a tuple or a mapping of tensors, not a {type(batch).__name__}")
    if samples is None:
        if not tensors[0].dim() or not len(tensors[0]):
            shape = tuple(tensors[0].shape)
            raise UserError(f"samples: its number is unknown, since the batch's first tensor has the shape {shape}")
        samples = len(tensors[0])

    def copied(tensor: Tensor) -> Tensor:
        kept = dtype if tensor.is_floating_point() else tensor.dtype
        return tensor.detach().to(device=device, dtype=kept, copy=True)

    return OwnBatch(mapped(batch, copied), samples)


class LiveTask(OwnTask):
    """A network on the user's batch; a UserError if that is a mapping, and `forward` takes no key of it."""

    def __init__(self, network: nn.Module, batch: OwnBatch, loss: Callable[[Any, Any], Tensor] | None) -> None:
        self.flag, self.loss = "loss", loss
        self._is_checked = False
        self.keys, self.left_out = None, []
        if isinstance(batch.content, Mapping):
            keys = list(batch.content)
            self.keys, named = taken_keys(network, keys)
            self.left_out = [key for key in keys if key not in self.keys]
            if not self.keys:
                raise UserError(
                    f"batch: it has {', '.join(map(str, keys))}, and forward takes {', '.join(named) or 'nothing'}: "
                    "name the entries as its arguments, or pass a tuple"
                )


def never_fed(batch: OwnBatch) -> OwnBatch | None:
    """A batch with other inputs of the same kind: the samples, or else their values, change places; None if equal."""
    changes: tuple[Callable[[Tensor], Tensor], ...] = (
        lambda tensor: tensor.roll(1, 0) if tensor.dim() else tensor,
        lambda tensor: tensor.flip(-1) if tensor.dim() else tensor,
    )
    for change in changes:
        other: OwnBatch = mapped(batch, change)
        if not all(torch.equal(*pair) for pair in zip(tensors_in(batch), tensors_in(other), strict=True)):
            return other
    return None


class _LiveModule:
    """What the steps of a cell's process ask of its LightningModule, without a Trainer."""

    num_parts = 1

    def __init__(self, network: nn.Module, cell: Cell, task: LiveTask, backend: Backend, plugin: Any) -> None:
        self.network, self.model, self.task, self.backend = network, cell.model, task, backend
        self.device, self.precision_plugin, self.trainer = backend.device(), plugin, self

    def optimizers(self, use_pl_optimizer: bool) -> torch.optim.Optimizer:
        trainable = [parameter for parameter in self.network.parameters() if parameter.requires_grad]
        if not trainable:
            raise UserError("mode=train: the model has no trainable parameter")
        return new_optimizer(self.model, trainable)


class NetworkRun(CellRun):
    """A run of `network`, a copy of the user's on the device; `original` is copied for the comparison with fp32."""

    backend: Backend

    def __init__(
        self, cell: Cell, network: nn.Module, original: nn.Module, task: LiveTask, batch: OwnBatch, backend: Backend
    ) -> None:
        super().__init__(cell, Path(), backend)
        self.network, self.original, self.task, self.batch = network.train(self.trains), original, task, batch
        self.build_s, self.num_params = 0.0, zoo.num_params(network)
        plugin = plugin_for(cell.precision, backend.torch_type)
        self.context = step_context(plugin)
        self.module = cast(BenchModule, _LiveModule(network, cell, task, backend, plugin))
        self.plain: nn.Module = getattr(network, "_orig_mod", network)  # without torch.compile
        self.observer = Observer(self.plain)
        self.unchecked: list[str] = []
        self.unseen: OwnBatch | None = None
        self.num_rows = batch.num_rows  # of the output
        self.on_host: OwnBatch = mapped(batch, Tensor.cpu)

    def run_steps(self) -> None:
        # As Lightning's Trainer does.
        with nullcontext() if self.trains else torch.inference_mode():
            if self.plain is not self.network:  # compiled code runs no hooks: let them see the plain network first
                self._run_plain()
            self.backend.hold(torch.get_default_dtype())
            make = TrainStep if self.trains else InferStep
            self.step = make(self.module, itertools.repeat(self.batch))
            self.measure_window(self.step)
            self.result = self.step.result
            if not self.observer.has_seen:
                self.note_resources()
                self.observer.look(self.plain, self._run_plain)
            if not self.trains:
                self._keep_outputs()

    def _run_plain(self) -> None:
        with torch.no_grad(), self.context():
            self.task.infer(self.plain, self.task.put(self.backend.put, self.batch))

    def _keep_outputs(self) -> None:
        if not next(tensors_in(self.batch.content)).dim():
            return
        self.unseen = never_fed(self.on_host)
        if self.unseen is None:
            self.unchecked.append(SAME_INPUTS)
        else:
            if self.batch.num_samples != self.batch.num_rows:  # the user says what is a sample
                self.num_rows = size_of(self.result, (self.batch.num_rows, self.batch.num_samples))
            self.keep_outputs(self.num_rows, None)

    def compared_inputs(self) -> tuple[Any, Any]:
        return self.on_host, self.unseen

    def seed_output(self, number: int) -> None:
        torch.manual_seed(number)

    def reordered_inputs(self, batch: Any, order: Sequence[int]) -> Any:
        return reordered(batch, order) if num_rows(batch) == len(order) else None

    def mixed_inputs(self, batch: Any, other: Any, rows: Sequence[int]) -> Any:
        return mixed(batch, other, rows) if num_rows(batch) == self.num_rows else None

    def inputs_of_rows(self, batch: Any, rows: Sequence[int]) -> list[int]:
        return keys_of_rows(self.task.infer(arguments, batch), rows, self.num_rows)  # type: ignore[arg-type]

    def measured_output(self, batch: OwnBatch, rows: Sequence[int]) -> Output:
        output = self.step.compute(self.step.copy_in(mapped(batch, Tensor.clone)))
        return described(output, self.num_rows, rows)

    def reference_outputs(
        self, batches: Sequence[Any], *, other: bool = False, precision: Precision | None = None
    ) -> list[Output]:
        # It runs in a thread; the dtype of new tensors is the process's.
        dtype, context = in_precision(precision or Precision.fp32)
        with torch.no_grad(), new_tensors_in(dtype), context:
            original = getattr(self.original, "_orig_mod", self.original)
            network = changed(copy_of(original).to(device="cpu").float().eval(), other=other).to(dtype)
            outputs = seeded(batches, lambda each: self.task.infer(network, mapped(each, lambda one: _as(one, dtype))))
            return [described(output, self.num_rows, self.rows) for output in outputs]

    def observe(self) -> Observed:
        if not all_finite(self.result):
            self.mark_not_finite()
        for handle in self.observer.handles:  # of layers that never ran: a copy of the network would have them too
            handle.remove()
        return Observed(
            device=self.backend.ran_on(self.observer.device().type),
            device_name=self.device_name(),
            precision=self.observer.precision(),
            num_devices=1,
            threads=torch.get_num_threads(),
            loss=self.checked_loss(self.result.item()) if self.trains else None,
            work=self._work(),
            cudnn_benchmark=self.backend.cudnn_benchmark(),
        )

    def _work(self) -> Work:
        module = cast(BenchModule, _LiveModule(self.plain, self.cell, self.task, self.backend, None))
        logger = logging.getLogger("torch._subclasses.fake_tensor")  # what can't be counted is a warning already
        was_disabled, logger.disabled = logger.disabled, True
        try:
            return count(module, self.on_host, self.cell.precision, train=self.trains)
        finally:
            logger.disabled = was_disabled

    def notes(self) -> Iterator[str]:
        if self.task.division:
            yield f"of the batch, {self.task.division}"
        if self.batch.num_samples != self.batch.num_rows:
            rows = f"the batch's first tensor has {self.batch.num_rows:,} rows"
            yield f"samples={self.batch.num_samples:,}, as given: {rows}"

    def warnings(self) -> Iterator[str]:
        yield from self.unchecked
        yield from kept()


def measure_network(
    model: nn.Module, batch: Any, loss: Callable[[Any, Any], Any] | None, samples: int | None, cell: Cell
) -> tuple[Cell, Measurement]:
    """Measures a copy of `model`; returns the cell with the batch's samples and place, and the measurement.

    Raises:
        UserError: the model can't be copied, or the batch holds no tensors.
        UnsupportedError: the model computes nothing with floating-point numbers.
    """
    torch_type = "cuda" if cell.device == Device.gpu else "cpu"
    dtype = STORED_DTYPES[cell.precision]
    with as_in_a_fresh_process(torch_type, dtype, tf32=cell.precision == Precision.tf32):
        backend = backend_for(cell.device)
        tensors = list(tensors_in(batch))
        stays = torch_type != "cpu" and bool(tensors) and all(each.device.type == torch_type for each in tensors)
        place = backend.device() if stays else torch.device("cpu")
        own = own_batch(batch, samples, dtype, place)
        data = dataclasses.replace(cell.data, pipeline=Pipeline.device if stays else Pipeline.host)
        cell = dataclasses.replace(cell, batch_size=own.num_samples, data=data)
        copied = copy_of(model).to(device=backend.device(), dtype=dtype)
        task = LiveTask(getattr(model, "_orig_mod", model), own, loss)
        return cell, result(NetworkRun(cell, copied, model, task, own, backend))


def _as(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor
