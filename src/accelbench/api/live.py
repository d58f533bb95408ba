"""A live network or a function of the user's, measured in its own process with the clock of a cell's process."""

import contextlib
import copy
import dataclasses
import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.profiler import profile
from torch.nn.parameter import is_lazy

from accelbench.api.returned import Returned
from accelbench.engines.cell_run import CellRun
from accelbench.engines.pytorch import global_state, zoo
from accelbench.engines.pytorch.backends import Backend, backend_for
from accelbench.engines.pytorch.feed import DrawnFeed
from accelbench.engines.pytorch.module import InferStep, Program, TrainStep, new_optimizer
from accelbench.engines.pytorch.outputs import NetworkOutputs, size_of
from accelbench.engines.pytorch.own.workload import OwnTask, OwnWorkload, tensors_of
from accelbench.engines.pytorch.precision import (
    STORED_DTYPES,
    Observer,
    cast_module,
)
from accelbench.engines.pytorch.structure import mapped, num_rows, parts_of, varied
from accelbench.engines.pytorch.training import TrainedNetwork, with_modes
from accelbench.engines.pytorch.work import count
from accelbench.errors import UserError
from accelbench.measuring.checks import WEIGHTS
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement, Observed
from accelbench.schema.vocab import Device, Pipeline, Precision

# Settings of the process that a measurement may keep, as they do not change the precision -> what one means if it is on
KEPT = {
    global_state.DETERMINISTIC: "deterministic algorithms are on",
    global_state.CUDNN_DETERMINISTIC: "cuDNN's deterministic algorithms are on",
    global_state.BENCHMARK: "cuDNN chooses algorithms by trial",
    global_state.ANOMALIES: "anomaly detection is on",
}


def _kept() -> list[str]:
    """A warning for each setting of the process that changes how long things take."""
    found = global_state.snapshot()
    return [f"{meaning} in this process: {name}" for name, meaning in KEPT.items() if found[name]]


@contextlib.contextmanager
def _as_in_a_fresh_process(torch_type: str, dtype: torch.dtype, *, tf32: bool = False) -> Iterator[None]:
    """Sets what a cell's own process has, and puts the process's state back on leaving.

    Inside, autocast is off, gradients are on, new tensors are `dtype`, cuDNN chooses algorithms by its rules, and fp32
    is computed in full precision, or in TF32. Deterministic algorithms and the detection of anomalies stay as they are.
    """
    with contextlib.ExitStack() as stack:
        if torch_type == "cuda":  # else no GPU is started
            torch.cuda.init()  # type: ignore[no-untyped-call]
        stack.callback(random.setstate, random.getstate())
        stack.callback(np.random.set_state, np.random.get_state())
        stack.callback(torch.set_rng_state, torch.get_rng_state())
        if _uses_cuda():
            stack.callback(torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all())
        stack.callback(global_state.restore, global_state.snapshot())
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())  # type: ignore[no-untyped-call]
        stack.enter_context(_outside_autocast())
        for each in {"cpu", torch_type}:
            torch.set_autocast_enabled(each, False)
        # A default device costs time at each call of torch.
        values = global_state.values_of_a_cell(allow_tf32=tf32)
        global_state.restore({**values, global_state.DEFAULT_DTYPE: dtype, global_state.DEFAULT_DEVICE: None})
        yield


@contextlib.contextmanager
def _outside_autocast() -> Iterator[None]:
    """As outside of every autocast: one drops its cast weights only when the outermost one ends."""
    num = torch.autocast_increment_nesting()
    for _ in range(num):
        torch.autocast_decrement_nesting()
    try:
        yield
    finally:
        for _ in range(num - 1):
            torch.autocast_increment_nesting()


def _copy_of(network: nn.Module) -> nn.Module:
    """A copy that shares no weights with the user's network. Raises UserError: the network can't be copied."""
    instead = "measure a function that runs it: accelbench.measure(lambda: model(batch), samples=...)"
    # Tensors that the network computes of its weights, such as pruned ones, refuse to be copied.
    values = itertools.chain.from_iterable(vars(layer).values() for layer in network.modules())
    computed = [value for value in values if isinstance(value, Tensor) and not value.is_leaf]
    try:
        with torch.no_grad():  # the weights of a scripted copy stay leaves
            copied = copy.deepcopy(network, {id(value): value.detach().clone() for value in computed})
    except Exception as error:  # a user's class may raise anything
        raise UserError(f"model: can't be copied ({type(error).__name__}: {error}): {instead}") from error
    for own, weight in zip(network.parameters(), copied.parameters(), strict=True):
        if not is_lazy(own):  # it gets its weights, and then a gradient, from its first batch
            weight.requires_grad_(own.requires_grad)
    if copied is network or _addresses(network) & _addresses(copied):
        raise UserError(f"model: its copy shares weights with it, and measuring must not change them: {instead}")
    return copied


def _addresses(network: nn.Module) -> set[int]:
    """Where the weights and buffers are in memory."""
    tensors = itertools.filterfalse(is_lazy, itertools.chain(network.parameters(), network.buffers()))
    return {part.untyped_storage().data_ptr() for tensor in tensors for part in parts_of(tensor.detach())} - {0}


class _LiveWorkload(OwnWorkload):
    """The user's batch alone; new networks are copies of the user's."""

    def __init__(self, cell: Cell, original: nn.Module, first: Any, loss: Callable[[Any, Any], Tensor] | None):
        self.cell, self.first = cell, first
        self.num_rows, self.num_samples, self.num_counted = num_rows(first), cell.batch_size, cell.batch_size
        self.plain: nn.Module = getattr(original, "_orig_mod", original)  # not by torch.compile
        self.task = OwnTask(self.plain, first, self.num_counted, loss)

    def build(self) -> nn.Module:
        return cast_module(self.own_copy(self.plain).to(device="cpu"), torch.float32)

    def own_copy(self, network: nn.Module) -> nn.Module:
        """A copy of the user's network, whose lazy layers have their weights."""
        return with_modes(zoo.materialised(_copy_of(network), lambda lazy: self.task.infer(lazy, self.example())))

    def unseen(self) -> tuple[Any, bool]:
        """The samples in another order, or smaller numbers."""
        other = varied(self.example())
        return (self.example(), False) if other is None else (other, True)

    def notes(self) -> Iterator[str]:
        yield from super().notes()
        if self.num_counted != (num := num_rows(self.first)):
            yield f"samples={self.num_counted:,}, as given: the batch's first tensor has {num:,} rows"


class _NetworkRun(NetworkOutputs):
    """A run of `network`, a copy of the user's on the device."""

    workload: _LiveWorkload

    def __init__(self, cell: Cell, network: nn.Module, workload: _LiveWorkload, backend: Backend) -> None:
        super().__init__(cell, Path(), backend)
        self.network, self.workload = network.train(self.trains), workload
        self.build_s, self.num_params, self.kept = 0.0, zoo.num_params(network), _kept()
        self.is_plain = self.plain_network() is network  # not by torch.compile
        self.observer = Observer(self.plain_network())
        self.hooks = [self.observer.handle]
        self.feed = DrawnFeed(lambda: workload.first, cell.batch_size, put=lambda batch: batch)
        parameters = [each for each in network.parameters() if each.requires_grad]
        optimizer = new_optimizer(cell.model, parameters) if self.trains else None
        self.program = Program(network, workload.task, backend, cell.precision, optimizer)

    def run_steps(self) -> None:
        if not self.is_plain:  # compiled code runs no hooks: let them see the plain network first
            task = self.workload.task
            with torch.no_grad(), self.program.context():
                task.infer(self.plain_network(), task.put(self.backend.put, self.workload.first))
        self.backend.hold(torch.get_default_dtype())
        self.in_grad_mode(self._measure)

    def _measure(self) -> None:
        make, workload = TrainStep if self.trains else InferStep, self.workload
        self.step = make(self.program, iter(self.feed))
        if self.trains:
            self.trained = TrainedNetwork(self.plain_network(), self.seen.training)
        self.measure_window(self.step)
        if self.trains:
            with self.seen.checking(WEIGHTS):
                self.trained.note_end([self.program.optimizer])
        self.last_result = self.step.result
        if not self.trains and workload.num_counted != workload.num_rows:  # the user decides what is a sample
            workload.num_rows = size_of(self.last_result, (workload.num_rows, workload.num_counted))
        self.keep_output(workload.example())

    def observe(self) -> Observed:
        loss = self.checked_loss(self.last_result.item()) if self.trains else None
        work = count(self.cell, self.plain_network(), self.workload.task, self.workload.example())
        return self.observer.observed(self, loss=loss, work=work)

    def warnings(self) -> Iterator[str]:
        yield from self.kept


def measure_network(
    model: nn.Module, batch: Any, loss: Callable[[Any, Any], Any] | None, samples: int | None, cell: Cell
) -> tuple[Cell, Measurement]:
    """Measures a copy of `model`; returns the cell with the batch's samples and place, and the measurement.

    Raises:
        UserError: the model can't be copied, or the batch has no tensors or an unknown number of samples.
        UnsupportedError: the model computes nothing with floating-point numbers.
    """
    tensors = tensors_of("batch: should be", batch)
    samples = samples or (tensors[0].size(0) if tensors[0].dim() else 0)
    if not samples:
        shape = tuple(tensors[0].shape)
        raise UserError(f"samples: its number is unknown, since the batch's first tensor has the shape {shape}")
    torch_type, dtype = "cuda" if cell.device == Device.gpu else "cpu", STORED_DTYPES[cell.precision]
    stays = torch_type != "cpu" and all(each.device.type == torch_type for each in tensors)
    data = dataclasses.replace(cell.data, pipeline=Pipeline.device if stays else Pipeline.host)
    cell = dataclasses.replace(cell, batch_size=samples, data=data)
    with _as_in_a_fresh_process(torch_type, dtype, tf32=cell.precision == Precision.tf32):
        backend = backend_for(cell.device)
        place = backend.device() if stays else torch.device("cpu")

        def copied(tensor: Tensor) -> Tensor:
            kept = dtype if tensor.is_floating_point() else tensor.dtype
            return tensor.detach().to(device=place, dtype=kept, copy=True)

        workload = _LiveWorkload(cell, model, mapped(batch, copied), loss)
        network = cast_module(workload.own_copy(model).to(device=backend.device()), dtype)
        return cell, cast(Measurement, _NetworkRun(cell, network, workload, backend).measure())


def _uses_cuda() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def _runs_kernels(function: Callable[[], object]) -> bool:
    torch.cuda.synchronize()
    with profile(use_device="cuda", use_kineto=True) as profiled:  # type: ignore[no-untyped-call]
        function()
        torch.cuda.synchronize()
    return any(event.device_type.name == "CUDA" for event in profiled.key_averages())


class _FunctionRun(CellRun):
    """A run of a function, one call of which is a step. On the CPU it must not use a GPU, which nothing waits for."""

    backend: Backend
    fetches_inside = True  # what moves data, if anything does, is part of the function

    build_s, num_params = 0.0, 0

    def __init__(self, cell: Cell, function: Callable[[], object], backend: Backend) -> None:
        super().__init__(cell, Path(), backend)
        self.function = function
        self.returned = Returned(cell.device)
        wait_for_device = backend.wait

        def wait() -> None:
            self.returned.wait()
            wait_for_device()

        vars(backend)["wait"] = wait  # for this backend only

    def new_step(self) -> Any:
        def nothing(*_: object) -> None: ...

        return SimpleNamespace(
            fetch=nothing,
            copy_in=nothing,
            compute=lambda batch: self.returned.add(self.function()),
            copy_out=nothing,
            num_samples=lambda batch: self.cell.batch_size,
        )

    def run_steps(self) -> None:
        super().run_steps()
        self.timing.copy_out_s = []  # the function has no output to copy
        # To see kernels, the function is called once more, but only in a process that uses a GPU.
        if self.cell.device == Device.cpu and _uses_cuda() and _runs_kernels(self.function):
            raise UserError(
                "device='cpu': the function used the GPU, and its time on the CPU is not that of its work: use "
                "device='gpu', which waits for it"
            )

    def observe(self) -> Observed:
        return Observed(  # what the function computes is unknown
            device=self.cell.device,
            device_name=self.device_name(),
            precision=self.cell.precision,
            num_devices=1,
            threads=torch.get_num_threads() if self.cell.device == Device.cpu else None,
        )

    def warnings(self) -> Iterator[str]:
        yield from _kept()


def measure_function(called: Callable[[], object], cell: Cell) -> Measurement:
    """Measures calls of `called`, and waits for the cell's device; PyTorch's state is what the function finds."""
    return cast(Measurement, _FunctionRun(cell, called, backend_for(cell.device)).measure())
