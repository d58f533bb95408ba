"""A measurement in the user's own process, of a live network or of a function, with the clock of a cell's process."""

import copy
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from accelbench.api.live.gpu_work import USED, GpuWork
from accelbench.api.live.state import kept
from accelbench.api.live.task import LiveTask, never_fed
from accelbench.engines.cell_run import CellRun
from accelbench.engines.lightning import zoo
from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.global_state import new_tensors_in
from accelbench.engines.lightning.module import BenchModule, StructuredStep, TrainStep, new_optimizer
from accelbench.engines.lightning.outputs import all_finite, described, seeded, size_of
from accelbench.engines.lightning.own.batch import OwnBatch
from accelbench.engines.lightning.precision import Observer, plugin_for, step_context
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
from accelbench.engines.lightning.workload import changed, in_precision
from accelbench.engines.observed import Observed
from accelbench.errors import UserError
from accelbench.measuring.outputs import Output
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Work
from accelbench.schema.vocab import Device, Precision

SAME_INPUTS = "the batch's samples are all equal, so it was not checked that each batch is computed"


def copy_of(network: nn.Module) -> nn.Module:
    """A copy that shares no weights with the user's network.

    Raises:
        UserError: the network can't be copied.
    """
    try:
        copied = copy.deepcopy(network)
    except Exception as error:  # a user's class may raise anything
        raise UserError(
            f"model: it can't be copied, and measuring must not change it ({type(error).__name__}: {error}); a "
            "function that runs it, accelbench.measure(lambda: model(batch), samples=...), is measured as it is"
        ) from error
    shared = _storages(network) & _storages(copied)
    if copied is network or shared:
        raise UserError(
            "model: its copy shares weights with it, and measuring must not change them: measure a function"
        )
    return copied


def _storages(network: nn.Module) -> set[int]:
    tensors = itertools.chain(network.parameters(), network.buffers())
    return {tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.numel()}


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
    """A run of a copy of the user's network.

    Args:
        cell: what was asked for.
        network: the copy, on the device and in the precision's dtype.
        original: the user's network, which is copied for the comparison with fp32 on the CPU.
        task: of the network.
        batch: on the host, or on the device already.
        backend: the device.
    """

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

    def run_steps(self) -> None:
        """In training with gradients, else in inference mode, as Lightning's Trainer does."""
        with nullcontext() if self.trains else torch.inference_mode():
            if self.plain is not self.network:  # compiled code runs no hooks: let them see the plain network first
                self._run_plain()
            self.backend.hold(torch.get_default_dtype())
            make = TrainStep if self.trains else StructuredStep
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
        self.unseen = never_fed(self._on_host())
        if self.unseen is None:
            self.unchecked.append(SAME_INPUTS)
        else:
            if self.batch.num_samples != self.batch.num_rows:  # the user says what is a sample
                self.num_rows = size_of(self.result, (self.batch.num_rows, self.batch.num_samples))
            self.keep_outputs(self.num_rows, None)

    def _on_host(self) -> OwnBatch:
        on_host: OwnBatch = mapped(self.batch, lambda tensor: tensor.cpu())
        return on_host

    def compared_inputs(self) -> tuple[Any, Any]:
        """The batch, and one whose samples or values have changed places."""
        return self._on_host(), self.unseen

    def seed_output(self, number: int) -> None:
        """All of torch's generators."""
        torch.manual_seed(number)

    def reordered_inputs(self, batch: Any, order: Sequence[int]) -> Any:
        """In host memory."""
        return reordered(batch, order) if num_rows(batch) == len(order) else None

    def mixed_inputs(self, batch: Any, other: Any, rows: Sequence[int]) -> Any:
        """In host memory."""
        return mixed(batch, other, rows) if num_rows(batch) == self.num_rows else None

    def inputs_of_rows(self, batch: Any, rows: Sequence[int]) -> list[int]:
        """Hashes of them."""
        return keys_of_rows(self.task.infer(arguments, batch), rows, self.num_rows)  # type: ignore[arg-type]

    def measured_output(self, batch: OwnBatch, rows: Sequence[int]) -> Output:
        """From a further step."""
        output = self.step.compute(self.step.copy_in(mapped(batch, torch.Tensor.clone)))
        return described(output, self.num_rows, rows)

    def reference_outputs(
        self, batches: Sequence[Any], *, other: bool = False, precision: Precision | None = None
    ) -> list[Output]:
        """From a new copy of the user's network. It runs in a thread; the dtype of new tensors is the process's."""
        dtype, context = in_precision(precision or Precision.fp32)
        with torch.no_grad(), new_tensors_in(dtype), context:
            original = getattr(self.original, "_orig_mod", self.original)
            network = changed(copy_of(original).to(device="cpu").float().eval(), other=other).to(dtype)
            outputs = seeded(batches, lambda each: self.task.infer(network, mapped(each, lambda one: _as(one, dtype))))
            return [described(output, self.num_rows, self.rows) for output in outputs]

    def observe(self) -> Observed:
        """Of the first step, and of the last one's result."""
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
            return count(module, self._on_host(), self.cell.precision, train=self.trains)
        finally:
            logger.disabled = was_disabled

    def notes(self) -> Iterator[str]:
        """Which keys of the batch the network does not get, and what counts as a sample if that is not a row."""
        if self.task.division:
            yield f"of the batch, {self.task.division}"
        if self.batch.num_samples != self.batch.num_rows:
            rows = f"the batch's first tensor has {self.batch.num_rows:,} rows"
            yield f"samples={self.batch.num_samples:,}, as given: {rows}"

    def warnings(self) -> Iterator[str]:
        """Why outputs were not compared, and settings of the process."""
        yield from self.unchecked
        yield from kept()


class FunctionRun(CellRun):
    """A run of a function of the user's, one call of which is a step.

    Args:
        cell: with the device that is waited for.
        function: takes no arguments.
        backend: the device.
    """

    backend: Backend

    def __init__(self, cell: Cell, function: Callable[[], object], backend: Backend) -> None:
        super().__init__(cell, Path(), backend)
        self.function, self.build_s, self.num_params = function, 0.0, 0

    @property
    def fetches_inside(self) -> bool:
        """What moves data, if anything does, is part of the function."""
        return True

    def new_step(self) -> Any:
        """One call."""
        return _Call(self.function, self.cell.batch_size)

    def run_steps(self) -> None:
        """One window; the function has no output to copy.

        Raises:
            UserError: the function uses a GPU, but the cell's device is the CPU.
        """
        gpu_work = GpuWork()
        super().run_steps()
        self.timing.copy_out_s = []
        if self.cell.device == Device.cpu and gpu_work.is_of(self.function):
            raise UserError(USED)

    def observe(self) -> Observed:
        """Nothing: what the function computes is unknown."""
        return Observed(
            device=self.cell.device,
            device_name=self.device_name(),
            precision=self.cell.precision,
            num_devices=1,
            threads=torch.get_num_threads() if self.cell.device == Device.cpu else None,
        )

    def warnings(self) -> Iterator[str]:
        """Settings of the process."""
        yield from kept()


class _Call:
    def __init__(self, function: Callable[[], object], samples: int) -> None:
        self.function, self.samples = function, samples

    def fetch(self) -> None:
        """Nothing."""

    def copy_in(self, batch: None) -> None:
        """Nothing."""

    def compute(self, batch: None) -> object:
        return self.function()

    def copy_out(self, result: object) -> None:
        """Nothing."""

    def num_samples(self, batch: None) -> int:
        return self.samples


def _as(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor
