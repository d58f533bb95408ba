"""What a measured network of PyTorch gives, and what a newly built one with its weights gives on the CPU."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from random import SystemRandom
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from accelbench.engines.cell_run import CellRun
from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.flops import needs_gradients, watched
from accelbench.engines.pytorch.global_state import (
    DETERMINISTIC,
    flush_denormals,
    new_tensors_in,
    restore,
    seed_generators,
    values_of_a_cell,
)
from accelbench.engines.pytorch.module import InferStep
from accelbench.engines.pytorch.precision import DTYPES, MIXED, STORED_DTYPES, cast_module, cast_tensor
from accelbench.engines.pytorch.structure import arrays_in, copied, mapped, outer_rows, tensors_in
from accelbench.engines.pytorch.training import TrainedNetwork, modes_of, set_modes
from accelbench.errors import UnsupportedError
from accelbench.measuring.checks import WEIGHTS, Measured, NewNetwork, Output, error_of, limit
from accelbench.schema.measurement import Work
from accelbench.schema.vocab import Mode, Precision

if TYPE_CHECKING:
    from accelbench.engines.pytorch.network_and_data import Workload

GAIN = 1.5  # of weights: for most activations, neither does the influence of an input vanish, nor does it explode
# What inference is run in, in this order, until the network runs.
INFERENCE_MODE, NO_GRAD, WITH_GRAD = "torch.inference_mode", "torch.no_grad", "torch.enable_grad"


class NetworkState(NamedTuple):
    """What a newly built network gets from the measured one."""

    tensors: Mapping[str, Tensor]  # its weights, and copies of its buffers, which a further step may change
    modes: Sequence[bool]  # of its layers
    counts: Mapping[str, dict[str, Any]] = {}  # by its name, the numbers and marks that a layer has as attributes


def uncompiled(network: nn.Module) -> nn.Module:
    """The network, as it was before torch.compile."""
    plain: nn.Module = getattr(network, "_orig_mod", network)
    return plain


def state_of(network: nn.Module) -> NetworkState:
    """Of the measured network, just before a further step."""
    tensors = {name: weight.detach() for name, weight in network.named_parameters()}
    for name, buffer in network.named_buffers():
        tensors[name] = buffer.detach().clone()
    return NetworkState(tensors, modes_of(network), {name: counts_of(layer) for name, layer in network.named_modules()})


def counts_of(layer: nn.Module) -> dict[str, Any]:
    """What a layer counts and notes in its attributes, such as batches so far, or that a scale has been set."""
    return {name: value for name, value in vars(layer).items() if type(value) in (bool, int, float)}


@torch.no_grad()
def adopt(network: nn.Module, measured: Mapping[str, Tensor]) -> bool:
    """Gives a new network on the CPU the tensors of another one, apart from what differs by rounding only.

    Whether both have the same tensors: options may have changed its layers. Then a seed gives both the same weights.
    """
    tensors = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    if tensors.keys() != measured.keys():
        return False
    for name, tensor in tensors.items():
        is_plain = tensor.layout == torch.strided and not tensor.is_quantized and not tensor.is_nested
        if not is_plain or tensor.shape != measured[name].shape:  # a cache that grows is filled again
            continue
        value = measured[name].to("cpu")
        if tensor.dtype == value.dtype or not torch.equal(tensor.to(value.dtype), value):
            tensor.copy_(value)
    return True


@torch.no_grad()
def draw_again(network: nn.Module) -> None:
    """Gives a network other weights and buffers: they keep an input's influence through many layers, and none is 0."""
    torch.manual_seed(SystemRandom().randrange(2**31))
    for tensor in [*network.parameters(), *network.buffers()]:
        if tensor.is_floating_point() and tensor.dim() > 1:
            tensor.copy_(torch.randn_like(tensor) * GAIN / math.sqrt(max(1, tensor[0].numel())))
        elif tensor.is_floating_point():
            tensor.uniform_(0.5, 1.5)


def _rows_of(batch: Any, result: Any) -> tuple[Any, Output] | None:
    """Two rows of a batch and of its output; None of whole numbers, which may be equal by chance."""
    rows = outer_rows(batch)
    of_output = outer_rows([*tensors_in(result)])
    if rows is None or of_output is None:
        return None
    output = arrays_in(of_output)
    return (rows, output) if all(array.dtype.kind == "f" for array in output) else None


class NetworkOutputs(CellRun):
    """A run of a network of PyTorch: what its further steps compute."""

    backend: Backend
    network: nn.Module
    workload: "Workload"
    step: InferStep  # of the timed part, which further steps are like
    last_result: Any  # of it
    is_plain: bool  # whether it runs operator by operator in this process, so that each can be watched
    grad_mode = INFERENCE_MODE  # what inference runs in; training is not affected
    new_in_fp32 = False  # whether the network's code needs new tensors to be in fp32, whatever the precision
    trained: TrainedNetwork  # in training
    watched_work: Work | None = None  # of one step of inference, as it ran on the CPU

    def begin_steady(self) -> None:
        if self.trains:
            with self.seen.checking(WEIGHTS):
                self.seen.training.before = self.trained.states()

    def check_layout(self) -> None:
        """Raises an UnsupportedError if `channels_last` has no effect on the inputs."""
        if all(tensor.dim() != 4 for tensor in tensors_in(self.workload.example())):
            raise UnsupportedError(
                "channels_last=true: no tensor of the batch has 4 dimensions: use channels_last=false"
            )

    def requests(self, num: int) -> list[Any]:
        return self.workload.requests(num)

    def joined(self, requests: Sequence[Any]) -> Any:
        return self.workload.joined(requests)

    def notes(self) -> Iterator[str]:
        yield from self.workload.notes()
        yield from self.backend.notes()
        if self.grad_mode == WITH_GRAD or (self.grad_mode == NO_GRAD and not self.backend.fused):
            yield f"inference ran in {self.grad_mode}: the network needs gradients"

    def begin_worker(self) -> None:
        """A thread takes over PyTorch's number of threads when it first asks for that; oneDNN does not ask."""
        torch.get_num_threads()
        if self.backend.flushes_denormals:
            flush_denormals()

    def in_worker(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.backend.fused else self._grad_context()

    @contextmanager
    def _grad_context(self) -> Iterator[None]:
        inference = torch.inference_mode(self.grad_mode == INFERENCE_MODE)
        with inference, torch.set_grad_enabled(self.grad_mode == WITH_GRAD):
            yield

    def measuring_context(self) -> AbstractContextManager[Any]:
        """What inference is measured in."""
        return self._grad_context()

    def in_grad_mode(self, measure: Callable[[], None]) -> None:
        """Calls `measure`, of inference in torch.inference_mode, or with more of autograd if the network needs that."""
        if self.trains:
            measure()
            return
        first = NO_GRAD if self.backend.fused else INFERENCE_MODE  # torch_xla has no other
        for self.grad_mode in dict.fromkeys((first, NO_GRAD, WITH_GRAD)):
            try:
                with self.measuring_context():
                    measure()
                    if not self._is_spoiled():
                        return
                    self.measured.clear()
            except Exception as error:
                if self.grad_mode == WITH_GRAD or self.timing.num_steady_steps or not needs_gradients(error):
                    raise

    def _is_spoiled(self) -> bool:
        """Whether the network computes something else in inference mode, where gradients of torch.func are 0."""
        if self.grad_mode != INFERENCE_MODE or not self.measured or not self.is_plain:
            return False
        batch, output = self.measured[0].batch, self.measured[0].output
        most = limit(self.cell.precision)
        with self.seen.checking(), suppress(Exception):  # it may keep tensors of inference mode
            with torch.inference_mode(False), torch.no_grad():
                is_other = error_of(arrays_in(self.further_result(batch)), output) > most
            return is_other and error_of(arrays_in(self.further_result(batch)), output) <= most
        return False

    def plain_network(self) -> nn.Module:
        """The measured network, as it was before it was compiled."""
        return uncompiled(self.network)

    def keep_output(self) -> None:
        self.note_resources()
        if self.is_plain and self.checks_output:
            with self.seen.checking():
                batch = self._fed(self.workload.example())
                with watched(self.seen.products) as counter:
                    self._result_of(batch)
                is_whole = self.backend.on_host and not self.seen.products.in_other_threads
                if is_whole and self.cell.mode == Mode.infer:
                    self.watched_work = counter.work()
        super().keep_output()

    def look(self) -> Measured:
        batch, is_unseen = self.workload.unseen()
        fed = self.workload.example()
        if not self.trains:
            # The last output first: the network may write the next one into its place.
            output_of_fed = arrays_in(self.step.result)
            state = state_of(self.plain_network())
            result = self.further_result(batch)
            rows = _rows_of(batch, result)
            plain = state._replace(counts={})
            output = arrays_in(result)
            return Measured(
                batch, output, is_unseen, plain, state, rows, fed, output_of_fed, partial(self._again, batch)
            )
        if (rows := outer_rows(batch)) is not None:
            with suppress(Exception):  # the network may take no other number of rows
                return self._look_at_training(rows, is_unseen, outer_rows(fed))
        return self._look_at_training(batch, is_unseen, fed)

    def _look_at_training(self, batch: Any, is_unseen: bool, fed: Any) -> Measured:
        state = state_of(self.plain_network())
        output = arrays_in(self.further_result(batch))
        plain = state._replace(counts={})
        return Measured(batch, output, is_unseen, plain, state, fed=fed, again=partial(self._again, batch))

    def _again(self, batch: Any) -> Output:
        with nullcontext() if self.trains else self.measuring_context():
            return arrays_in(self.further_result(batch))

    def further_result(self, batch: Any) -> Any:
        """What a further step computes for a batch in host memory; in training, its forward pass and loss."""
        return self._result_of(self._fed(batch))

    def _fed(self, batch: Any) -> Any:
        return self.step.copy_in(copied(batch))

    def _result_of(self, batch: Any) -> Any:
        seed_generators(0)
        if not self.trains:
            return self.step.compute(batch)
        with self.step.context():
            return self.step.task.train(self.network, batch)

    def new_network(self, state: NetworkState, precision: Precision, *, other: bool = False) -> NewNetwork:
        dtype = STORED_DTYPES[precision]
        with torch.inference_mode(False), new_tensors_in(torch.float32):
            network = uncompiled(cast_module(self.built_anew(), dtype))
            is_like_measured = adopt(network, state.tensors)
        if other:
            draw_again(network)
        for name, layer in network.named_modules():
            vars(layer).update(state.counts.get(name, {}))
        network.train(self.trains)
        set_modes(network, state.modes)
        # The user's code may have changed it while the network was built.
        restore({**values_of_a_cell(allow_tf32=False), DETERMINISTIC: 0})

        def run(batch: Any, seed: int) -> Output:
            seed_generators(seed)
            # A copy: the user's code may change its batch.
            inputs = mapped(copied(batch), lambda tensor: cast_tensor(tensor, dtype))
            context = torch.autocast("cpu", DTYPES[precision]) if precision in MIXED else nullcontext()
            with_grad = torch.set_grad_enabled(self.trains or self.grad_mode == WITH_GRAD)
            with context, new_tensors_in(torch.float32 if self.new_in_fp32 else dtype), with_grad:
                if not is_like_measured:  # perhaps it makes layers when it runs first
                    self.computed_anew(network, copied(inputs), dtype)
                    adopt(network, state.tensors)
                return arrays_in(self.computed_anew(network, inputs, dtype))

        return run

    def built_anew(self) -> nn.Module:
        """A newly built network in host memory."""
        return self.workload.build()

    def computed_anew(self, network: nn.Module, batch: Any, dtype: torch.dtype) -> Any:
        """What a newly built network, whose weights have `dtype`, gives for a batch."""
        task = self.workload.task_in(dtype)
        return task.train(network, batch) if self.trains else task.infer(network, batch)
