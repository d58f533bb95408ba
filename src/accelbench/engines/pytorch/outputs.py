"""Checks the outputs of PyTorch networks.

A check builds a new network on the CPU with the same weights as the measured network. It compares the outputs of both.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from accelbench.engines.cell_run import CellRun
from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.flops import Counter, needs_gradients
from accelbench.engines.pytorch.module import InferStep
from accelbench.engines.pytorch.precision import (
    DTYPES,
    STORED_DTYPES,
    cast_module,
    cast_tensor,
    flush_denormals,
    new_tensors_in,
    reset_settings,
    seed_generators,
)
from accelbench.engines.pytorch.structure import arrays_in, copied, mapped, outer_rows, parts_of, tensors_in
from accelbench.engines.pytorch.zoo import has_mode, modes_of, set_modes
from accelbench.errors import UnsupportedError
from accelbench.measuring.checks import NewNetwork, Norms, ObservedOutput, Output, error_of, limit
from accelbench.schema.ceilings import MIXED
from accelbench.schema.cell import Mode, Precision
from accelbench.schema.measurement import Work

if TYPE_CHECKING:
    from accelbench.engines.pytorch.network_and_data import Workload

# Modes of autograd for inference, tried in this order until the network runs.
INFERENCE_MODE, NO_GRAD, WITH_GRAD = "torch.inference_mode", "torch.no_grad", "torch.enable_grad"


# Layers of torch.nn whose output depends on the mode.
MODAL = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._NormBase)


class NetworkState(NamedTuple):
    """The state of the measured network that is copied into a newly built network."""

    tensors: Mapping[str, Tensor]  # the weights, and copies of the buffers, which a further step may change
    modes: Sequence[bool]  # for each layer, whether it is in training mode
    counts: Mapping[str, dict[str, Any]] = {}  # name of a layer -> its attributes that are numbers or flags


def norm_of(tensor: Tensor) -> float:
    """Returns the norm of all numbers of a tensor, in fp64, and a little of their sum, which shows changed signs."""
    values = parts_of(tensor.detach())[-1]
    if values.device.type == "xla":  # XLA would compile the operators
        values = values.cpu()
    if values.is_complex():
        values = torch.view_as_real(values)
    if not values.is_floating_point():
        values = values.float()
    return float(
        torch.linalg.vector_norm(values, dtype=torch.float64) + 2**-30 * values.sum(dtype=torch.float64)
    )


def _in_mode(layer: nn.Module, *, training: bool, name: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Yields (name, layer) for the outermost layers in training mode or, if `training` is false, in evaluation mode."""
    if getattr(layer, "training", training) != training:  # a frozen TorchScript module has no mode
        for child_name, child in layer.named_children():
            yield from _in_mode(child, training=training, name=f"{name}.{child_name}" if name else child_name)
    elif has_mode(layer):
        yield name or "the network", layer


def in_other_mode(network: nn.Module, *, training: bool) -> list[str]:
    """Returns the names of layers that are in evaluation mode if `training`, else of layers in training mode.

    In training, layers that have only frozen weights are not returned, because users often leave them in evaluation
    mode on purpose. A layer without weights, and any layer in inference, is returned only if its output depends on the
    mode.
    """
    names = []
    for name, layer in _in_mode(network, training=not training):
        parameters = list(layer.parameters())
        counts = any(isinstance(part, MODAL) for part in layer.modules())
        if training and parameters:
            counts = any(weight.requires_grad for weight in parameters)
        if counts:
            names.append(name)
    return names


def uncompiled(network: nn.Module) -> nn.Module:
    """The network without its wrapper, if torch.compile has wrapped it."""
    plain: nn.Module = getattr(network, "_orig_mod", network)
    return plain


def state_of(network: nn.Module) -> NetworkState:
    """Returns the present state of the measured network. Call this before the next step, which may change the state."""
    tensors = {name: weight.detach() for name, weight in network.named_parameters()}
    for name, buffer in network.named_buffers():
        tensors[name] = buffer.detach().clone()
    counts = {}  # of each layer, attributes that are numbers or flags, such as the number of batches that it has seen
    for name, layer in network.named_modules():
        counts[name] = {key: value for key, value in vars(layer).items() if type(value) in (bool, int, float)}
    return NetworkState(tensors, modes_of(network), counts)


@torch.no_grad()
def adopt(network: nn.Module, measured: Mapping[str, Tensor]) -> bool:
    """Copies the `measured` tensors into a new network on the CPU. Keeps its tensor if the two differ only by rounding.

    Returns True if the tensors of both networks have the same names. Otherwise copies nothing and returns False. The
    names differ, for example, if an option has changed the layers.
    """
    tensors = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    if tensors.keys() != measured.keys():
        return False
    for name, tensor in tensors.items():
        is_plain = tensor.layout == torch.strided and not tensor.is_quantized and not tensor.is_nested
        if not is_plain or tensor.shape != measured[name].shape:  # such as a cache that grows
            continue
        value = measured[name].to("cpu")
        if tensor.dtype == value.dtype or not torch.equal(tensor.to(value.dtype), value):
            tensor.copy_(value)
    return True


def _rows_of(batch: Any, result: Any) -> tuple[Any, Output] | None:
    """Returns the first and last row of a batch, and the first and last row of its output.

    Returns None if `outer_rows` returns None. Also returns None if the output has whole numbers: in two rows, a wrong
    output may be equal to the right one by chance.
    """
    rows = outer_rows(batch)
    of_output = outer_rows([*tensors_in(result)])
    if rows is None or of_output is None:
        return None
    output = arrays_in(of_output)
    return (rows, output) if all(array.dtype.kind == "f" for array in output) else None


class NetworkOutputs(CellRun):
    """The run of a PyTorch network. After the timed part, additional steps check the network's output."""

    backend: Backend
    network: nn.Module
    workload: "Workload"
    step: InferStep  # the step of the timed part; further steps use it too
    last_result: Any  # the result of the last step
    # Whether the network runs operator by operator in this process, so that each can be observed.
    is_plain: bool
    grad_mode = INFERENCE_MODE  # the mode of autograd in inference; training does not use it
    new_in_fp32 = False  # whether the network's code needs new tensors in fp32, in any precision
    watched_work: Work | None = None  # work of one step of inference on the CPU, counted while it ran

    def _trained(self) -> dict[str, nn.Parameter]:
        """The tensors that were trainable when the first step began."""
        names = set(self.observations.training.names)
        return {
            name: weight
            for name, weight in self.network.named_parameters()
            if name in names and weight.numel()
        }

    def norms(self) -> Norms:
        return {name: norm_of(weight) for name, weight in self._trained().items()}

    def note_end(self) -> None:
        """Records the weights, gradients and modes at the end of the steady state."""
        training = self.observations.training
        weights = self._trained()
        training.after = self.norms()
        # Coarse weights have 16 bits or fewer.
        training.is_coarse = any(weight.element_size() <= 2 for weight in weights.values())
        training.sizes = {name: weight.numel() for name, weight in weights.items()}
        gradients = [weight.grad for weight in weights.values() if weight.grad is not None]
        training.vanished = bool(gradients) and not any(map(norm_of, gradients))
        training.evaluating = in_other_mode(self.network, training=True)

    def check_layout(self) -> None:
        """Raises UnsupportedError if `channels_last` has no effect on the inputs."""
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
        if self.grad_mode == WITH_GRAD or (self.grad_mode == NO_GRAD and not self.backend.fused):
            fails = "in torch.inference_mode, the network fails or has another output"
            yield f"inference ran in {self.grad_mode}: {fails}"

    def begin_worker(self) -> None:
        """Sets how many threads the calling thread may use, and how it handles denormal numbers."""
        torch.get_num_threads()  # makes a new thread adopt PyTorch's number; oneDNN would not
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
        """The context in which inference is measured."""
        return self._grad_context()

    def in_grad_mode(self, measure: Callable[[], None]) -> None:
        """Calls `measure`. Inference runs in torch.inference_mode, or in another mode if the network needs autograd."""
        if self.trains:
            measure()
            return
        first = NO_GRAD if self.backend.fused else INFERENCE_MODE  # torch_xla has no inference mode
        for self.grad_mode in dict.fromkeys((first, NO_GRAD, WITH_GRAD)):
            try:
                with self.measuring_context():
                    measure()
                    if not self._is_spoiled():
                        return
                    self.output = None
            except Exception as error:
                if self.grad_mode == WITH_GRAD or self.timing.num_steady_steps or not needs_gradients(error):
                    raise

    def _is_spoiled(self) -> bool:
        """Returns True if torch.inference_mode changes the output. In this mode, torch.func's gradients may be 0."""
        if self.grad_mode != INFERENCE_MODE or self.output is None or not self.is_plain:
            return False
        batch = self.output.batch
        measured = self.output.output
        most = limit(self.cell.precision)
        # The error of a network that keeps inference tensors is suppressed.
        with self.observations.checking(), suppress(Exception):
            with torch.inference_mode(False), torch.no_grad():
                output = arrays_in(self.further_result(batch))
            # The output of a network with a state differs in each step.
            return (
                error_of(output, measured) > most >= error_of(arrays_in(self.further_result(batch)), measured)
            )
        return False

    def keep_output(self) -> None:
        self.note_resources()
        if self.is_plain and self.checks_output:
            with self.observations.checking():
                self._watch(self.workload.example())
        super().keep_output()

    def _watch(self, batch: Any) -> None:
        """Observes the operators of an additional step.

        The step runs on two rows of the batch. If that fails, or if the step's work must be counted, the step runs on
        the whole batch.
        """
        counts_work = self.cell.mode == Mode.infer and self.backend.on_host
        if not counts_work and (rows := outer_rows(batch)) is not None:
            with suppress(Exception):  # the network may not accept another number of rows
                self._watch_step(rows)
                return
        with suppress(RuntimeError):  # fails if the network keeps tensors of torch.inference_mode
            counter = self._watch_step(batch)
            if counts_work:
                self.watched_work = counter.work()

    def _watch_step(self, batch: Any) -> Counter:
        fed = self._fed(batch)
        with Counter() as counter:
            self._result_of(fed)
        self.observations.products = counter.products
        return counter

    def observe_output(self) -> ObservedOutput:
        batch, is_unseen = self.workload.unseen()
        fed = self.workload.example()
        if self.trains and (rows := outer_rows(batch)) is not None:
            with suppress(Exception):  # the network may not accept another number of rows
                return self._observe(rows, is_unseen, outer_rows(fed))
        return self._observe(batch, is_unseen, fed)

    def _observe(self, batch: Any, is_unseen: bool, fed: Any) -> ObservedOutput:
        # Copied first: the network may overwrite its last output in the next step.
        output_of_fed = [] if self.trains else arrays_in(self.step.result)
        state = state_of(uncompiled(self.network))
        result = self.further_result(batch)
        return ObservedOutput(
            batch,
            arrays_in(result),
            is_unseen,
            state=state,
            plain_state=state._replace(counts={}),
            rows=None if self.trains else _rows_of(batch, result),
            fed=fed,
            output_of_fed=output_of_fed,
        )

    def further_result(self, batch: Any) -> Any:
        """Runs an additional step on a batch in host memory. Returns the output; in training, (output, loss)."""
        return self._result_of(self._fed(batch))

    def _fed(self, batch: Any) -> Any:
        return self.step.copy_in(copied(batch))

    def _result_of(self, batch: Any) -> Any:
        seed_generators(0)
        if not self.trains:
            return self.step.compute(batch)
        with self.step.context():
            return self.step.task.train(self.network, batch)

    def new_network(self, state: NetworkState, precision: Precision) -> NewNetwork:
        dtype = STORED_DTYPES[precision]
        with torch.inference_mode(False), new_tensors_in(torch.float32):
            network = uncompiled(cast_module(self.workload.build(), dtype))
            is_like_measured = adopt(network, state.tensors)
        for name, layer in network.named_modules():
            vars(layer).update(state.counts.get(name, {}))
        network.train(self.trains)
        set_modes(network, state.modes)
        # The user's code may have changed global settings while it built the network.
        reset_settings(allow_tf32=False)

        def run(batch: Any, seed: int) -> Output:
            seed_generators(seed)
            # A copy: the user's code may change its batch.
            inputs = mapped(copied(batch), lambda tensor: cast_tensor(tensor, dtype))
            context = torch.autocast("cpu", DTYPES[precision]) if precision in MIXED else nullcontext()
            with_grad = torch.set_grad_enabled(self.trains or self.grad_mode == WITH_GRAD)
            with context, new_tensors_in(torch.float32 if self.new_in_fp32 else dtype), with_grad:
                if not is_like_measured:  # the network may make layers in its first run
                    self.computed_anew(network, copied(inputs), dtype)
                    adopt(network, state.tensors)
                return arrays_in(self.computed_anew(network, inputs, dtype))

        return run

    def computed_anew(self, network: nn.Module, batch: Any, dtype: torch.dtype) -> Any:
        """Runs a newly built network on a batch. The weights of the network have `dtype`."""
        task = self.workload.task_in(dtype)
        return task.train(network, batch) if self.trains else task.infer(network, batch)
