"""What a measured network of PyTorch gives, and what a newly built one with its weights gives on the CPU."""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.hooks import RemovableHandle

from accelbench.engines.cell_run import CellRun
from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.global_state import (
    DETERMINISTIC,
    flush_denormals,
    new_tensors_in,
    restore,
    seed_generators,
    settings_as_before,
    values_of_a_cell,
)
from accelbench.engines.pytorch.module import InferStep
from accelbench.engines.pytorch.precision import DTYPES, MIXED, STORED_DTYPES, cast_module, cast_tensor
from accelbench.engines.pytorch.structure import arrays_in, copied, mapped, outer_rows, tensors_in
from accelbench.engines.pytorch.training import TrainedNetwork, has_mode, modes_of, set_modes
from accelbench.engines.pytorch.work import watched
from accelbench.errors import UnsupportedError
from accelbench.measuring.checks import (
    UNSTEADY,
    WEIGHTS,
    WHOLE,
    Findings,
    Measured,
    NewNetwork,
    Output,
    error_of,
    limit,
)
from accelbench.schema.measurement import Measurement, Work
from accelbench.schema.vocab import Precision

if TYPE_CHECKING:
    from accelbench.engines.pytorch.workloads import Workload

GAIN = 1.5  # of weights: for most activations, neither does the influence of an input vanish, nor does it explode
# In training: code that keeps something for every second batch drops it at the first new size, and shows in the others.
NUM_LOOKS = 3
ROWS = "the first and last rows of further batches, beside those of newly built networks in fp32"
# What inference is run in, in this order, until the network runs.
INFERENCE_MODE, NO_GRAD, WITH_GRAD = "torch.inference_mode", "torch.no_grad", "torch.enable_grad"
# Of an error of torch that a network meets which needs gradients to infer, such as forces.
OF_GRADIENTS = ("inference tensor", "does not require grad", "inference_mode", "outside InferenceMode")


def size_of(output: object, sizes: Sequence[int]) -> int:
    """The first of `sizes` that a dimension of an output's tensors has; 1 if none has.

    It is for batches whose samples a function of the user counts: an output may have one row for each row of the batch,
    such as a node, or one for each sample, such as a graph, or one for all.
    """
    lengths = {length for tensor in tensors_in(output) if not tensor.is_nested for length in tensor.shape}
    return next((size for size in sizes if size in lengths), 1)


def needs_gradients(error: Exception) -> bool:
    """Whether an error of inference is explained by gradients that the network needs."""
    return isinstance(error, RuntimeError) and any(words in str(error) for words in OF_GRADIENTS)


def state_of(network: nn.Module) -> dict[str, Tensor]:
    """The weights of a network, and copies of its buffers, which a further step may change."""
    state = {name: each.detach() for name, each in network.named_parameters()}
    return state | {name: each.detach().clone() for name, each in network.named_buffers()}


@torch.no_grad()
def adopt(network: nn.Module, state: Mapping[str, Tensor]) -> bool:
    """Gives a new network on the CPU the state of another one, apart from what differs by rounding only.

    Whether both have the same tensors: options may have changed its layers. Then a seed gives both the same weights.
    """
    own = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    if own.keys() != state.keys():
        return False
    for name, tensor in own.items():
        is_plain = tensor.layout == torch.strided and not tensor.is_quantized and not tensor.is_nested
        if not is_plain or tensor.shape != state[name].shape:  # a cache that grows is filled again
            continue
        measured = state[name].to("cpu")
        if tensor.dtype == measured.dtype or not torch.equal(tensor.to(measured.dtype), measured):
            tensor.copy_(measured)
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


class Undrawn(TorchDispatchMode):
    """Leaves weights as they are where random numbers would fill them."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket.__name__ in ("normal_", "uniform_") and isinstance(args[0], nn.Parameter):
            return args[0]
        return func(*args, **(kwargs or {}))


class NetworkOutputs(CellRun):
    """A run of a network of PyTorch: what its further steps compute."""

    backend: Backend
    network: nn.Module
    workload: "Workload"
    step: InferStep  # of the timed part, which further steps are like
    last_result: Any  # of it
    is_plain: bool  # whether it runs operator by operator in this process, so that each can be watched
    grad_mode = INFERENCE_MODE  # what inference runs in; training is not affected
    state: Mapping[str, Tensor]
    hooks: Sequence[RemovableHandle] = ()  # on all modules of this process, until they saw what they wait for
    rows: Output = ()  # the outer ones of what the network gave last, if it has any
    trained: TrainedNetwork  # in training
    modes: Sequence[bool]  # of the layers of the network when its output was kept

    def measure(self, work: Work | None = None, requests: Path | None = None) -> Measurement | None:
        try:
            return super().measure(work, requests)
        finally:
            for hook in self.hooks:  # of layers that never ran
                hook.remove()

    def begin_steady(self) -> None:
        if self.trains:
            with self.seen.checking(WEIGHTS):
                self.seen.training.before = self.trained.states()

    def check_layout(self) -> None:
        """Raises an UnsupportedError if `channels_last` has no effect on the inputs."""
        if all(tensor.dim() != 4 for tensor in tensors_in(self.workload.example())):
            told = "no tensor of the batch has 4 dimensions: use channels_last=false"
            raise UnsupportedError(f"channels_last=true: {told}")

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
                    if self.grad_mode == INFERENCE_MODE and self._is_spoiled():
                        self.measured.clear()
                        continue
                return
            except Exception as error:
                if self.grad_mode == WITH_GRAD or self.timing.num_steady_steps or not needs_gradients(error):
                    raise

    def _is_spoiled(self) -> bool:
        """Whether the network computes something else in inference mode, where gradients of torch.func are 0."""
        if not self.measured or not self.is_plain or self.agreed is not None:
            return False
        unseen, output = self.measured[-1].unseen, self.measured[-1].output
        most = limit(self.cell.precision)
        with self.seen.checking(), suppress(Exception):  # it may keep tensors of inference mode
            with torch.inference_mode(False), torch.no_grad():
                is_other = error_of(self.measured_output(unseen), output) > most
            return is_other and error_of(self.measured_output(unseen), output) <= most
        return False

    def why_other(self, measured: Measured) -> str | None:
        if not self.is_plain or self.trains:
            return None
        try:
            set_modes(self.plain_network(), self.modes)
            with self._grad_context():
                self.is_plain = False  # watching takes time, and some networks read a clock
                self.state = measured.state
                reference = self.new_network(Precision.fp32)(measured.unseen, 0)
                most = limit(self.cell.precision)
                for _ in range(3):
                    self._give_back(measured.state)
                    again = self.measured_output(measured.unseen)
                    if error_of(again, measured.output) > most or error_of(again, reference) <= most:
                        return UNSTEADY
        except Exception:  # Lightning's Trainer may have moved the network, or its state changes its shape
            return None
        return None

    @torch.no_grad()
    def _give_back(self, state: Mapping[str, Tensor]) -> None:
        """Gives the measured network the buffers that it had."""
        for name, buffer in self.plain_network().named_buffers():
            buffer.copy_(state[name])

    def plain_network(self) -> nn.Module:
        """The measured network, as it was before it was compiled."""
        plain: nn.Module = getattr(self.network, "_orig_mod", self.network)
        return plain

    def unseen_batch(self) -> tuple[Any, bool]:
        return self.workload.unseen()

    def last_output(self) -> Output:
        return [] if self.trains else arrays_in(self.step.result)

    def measured_output(self, batch: Any) -> Output:
        self.note_state(self.plain_network())
        seed_generators(0)
        step = self.step
        with watched(self.seen.products) if self.is_plain and not self.seen.products.total else nullcontext():
            on_device = step.copy_in(copied(batch))
            if not self.trains:
                result = step.compute(on_device)
            else:
                with step.context():
                    result = step.task.train(self.network, on_device)
        self.rows = arrays_in(outer_rows([*tensors_in(result)]))
        return arrays_in(result)

    def agreement(self) -> Findings | None:
        """Compares outer rows of the output, or all of it; in training, the outputs of such rows of further batches."""
        first = self.measured[0]
        other = self.measured[-1].output if self.trains else first.output_of_fed
        if not first.is_unseen or not first.output or error_of(first.output, other) == 0.0:
            return None
        rows = outer_rows(first.unseen)
        has_rows = rows is not None and self.has_rows
        if not has_rows:
            errors = [self._error_of(measured.output, measured.unseen, measured.state) for measured in self.measured]
        elif self.trains:
            errors = [self._error_of_rows() for _ in range(NUM_LOOKS)]
        else:  # the measured network gets no rows: it may keep something for each number of them
            errors = [self._error_of(self.rows, rows, first.state)]
        if max(errors) > limit(self.cell.precision):
            return None
        return Findings(error=max(errors), observed=ROWS if has_rows else WHOLE)

    @property
    def has_rows(self) -> bool:
        """Whether some rows of an output can show that all are right; whole numbers may be equal by chance."""
        if self.trains:
            return self.is_plain
        return bool(self.rows) and all(array.dtype.kind == "f" for array in self.rows)

    def _error_of(self, output: Output, batch: Any, state: Mapping[str, Tensor]) -> float:
        self.state = state
        return error_of(output, self._reference(batch))

    def _error_of_rows(self) -> float:
        batch, _ = self.unseen_batch()
        rows = outer_rows(batch)
        self.note_state(self.plain_network())
        # The CPU first: a mistake in indices would end a GPU's context.
        reference = self._reference(rows)
        return error_of(self.measured_output(rows), reference)

    def _reference(self, batch: Any) -> Output:
        with settings_as_before():  # the cell's own, such as TF32, are read back later
            return self.new_network_in_time(Precision.fp32, drawn=False)(batch, 0)

    def note_state(self, network: nn.Module) -> None:
        """Notes what a newly built network gets from the measured one."""
        self.state, self.modes = state_of(network), modes_of(network)

    def new_network(self, precision: Precision, *, other: bool = False, drawn: bool = True) -> NewNetwork:
        dtype = STORED_DTYPES[precision]
        # Weights of 16 bits differ from new ones by rounding, which is a part of the error.
        is_rounded = STORED_DTYPES[self.cell.precision] != torch.float32
        with (
            torch.inference_mode(False),
            new_tensors_in(torch.float32),
            nullcontext() if drawn or is_rounded else Undrawn(),
        ):
            network = cast_module(self.built_anew(), dtype)
            is_like_measured = adopt(network, self.state)
        if other:
            draw_again(network)
        if has_mode(network):
            network.train(self.trains)
        set_modes(network, self.modes)
        # The user's code may have changed it while the network was built.
        restore({**values_of_a_cell(allow_tf32=False), DETERMINISTIC: 0})
        buffers = copy.deepcopy(dict(network.named_buffers(remove_duplicate=False)))

        def run(batch: Any, seed: int) -> Output:
            if seed == 0:
                for name, buffer in copy.deepcopy(buffers).items():  # layers that share one still do
                    owner, _, attribute = name.rpartition(".")
                    setattr(network.get_submodule(owner), attribute, buffer)
            seed_generators(seed)
            # The user's code may change its batch.
            own_batch = mapped(copied(batch), lambda tensor: cast_tensor(tensor, dtype))
            context = torch.autocast("cpu", DTYPES[precision]) if precision in MIXED else nullcontext()
            with (
                context,
                new_tensors_in(dtype),
                torch.set_grad_enabled(self.trains or self.grad_mode == WITH_GRAD),
            ):
                if not is_like_measured:  # perhaps it makes layers when it runs first
                    self.computed_anew(network, copied(own_batch), dtype)
                    adopt(network, self.state)
                return arrays_in(self.computed_anew(network, own_batch, dtype))

        return run

    def built_anew(self) -> nn.Module:
        """A newly built network in host memory."""
        return self.workload.build()

    def computed_anew(self, network: nn.Module, batch: Any, dtype: torch.dtype) -> Any:
        """What a newly built network, whose weights have `dtype`, gives for a batch."""
        task = self.workload.task_in(dtype)
        return task.train(network, batch) if self.trains else task.infer(network, batch)
