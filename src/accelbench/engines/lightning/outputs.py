"""The tensors of a network's output: what they are, their rows that are compared, and how they are computed again."""

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from accelbench.engines.cell_run import CellRun
from accelbench.engines.lightning import structure
from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.global_state import flush_denormals
from accelbench.engines.lightning.module import InferStep
from accelbench.engines.lightning.structure import mapped, num_rows, tensors_in
from accelbench.engines.lightning.work import Counter, watched
from accelbench.errors import UnsupportedError, UserError
from accelbench.measuring.output_check import MAX_ROW_NUMBERS, NUM_ROWS, Output, OutputTensor, References, batch_axes
from accelbench.schema.vocab import XLA, Device, Pipeline

if TYPE_CHECKING:
    from accelbench.engines.lightning.workloads import Workload

LAZY = "the output is computed only when it is read, which no step does: return plain tensors"
GAIN = 1.5  # of weights: for most activations, neither does the influence of an input vanish, nor does it explode
# Where the subclasses of tensors come from that compute at once.
TRUSTED = frozenset({"torch", "torchvision", "torchao", "transformers", "tensordict"})


def all_finite(output: object) -> bool:
    """Whether every floating-point number of an output is finite."""
    return all(bool(torch.isfinite(tensor).all()) for tensor in tensors_in(output) if tensor.is_floating_point())


def described(output: object, size: int, rows: Sequence[int]) -> Output:
    """The tensors of an output for a batch of `size` samples, with these rows of them, or fewer if rows are large."""
    return [_described(tensor.detach(), size, rows) for tensor in tensors_in(output)]


def _described(tensor: Tensor, size: int, rows: Sequence[int]) -> OutputTensor:
    shape = tuple(tensor.shape)
    axes = batch_axes(shape, size)
    if not axes or not tensor.is_floating_point():
        return OutputTensor(shape)
    values = tensor.cpu()  # first of all: XLA would compile the selection
    most = max(1, MAX_ROW_NUMBERS * size // max(1, values.numel()))
    chosen = torch.tensor(rows[:most])
    # `double` copies: a further step may overwrite the output.
    return OutputTensor(shape, {axis: values.movedim(axis, 0)[chosen].double().numpy() for axis in axes})


def computes_when_read(output: object) -> bool:
    """Whether reading the tensors of an output, for the first time, runs operators, or may run the user's code."""
    with Counter() as ran:
        kinds = {type(tensor) for tensor in tensors_in(output)} - {Tensor, nn.Parameter}
    return ran.num_operators > 0 or any(kind.__module__.partition(".")[0] not in TRUSTED for kind in kinds)


def size_of(output: object, sizes: Sequence[int]) -> int:
    """The first of `sizes` that a dimension of an output's tensors has; 1 if none has, so that it is compared whole.

    It is for batches whose samples a function of the user counts: an output may have one row for each row of the batch,
    such as a node, or one for each sample, such as a graph, or one for all.
    """
    shapes = [tuple(tensor.shape) for tensor in tensors_in(output)]
    return next((size for size in sizes if any(batch_axes(shape, size) for shape in shapes)), 1)


@torch.no_grad()
def changed(network: nn.Module, *, other: bool) -> nn.Module:
    """The network; with `other`, its weights keep an input's influence through many layers, and none is 0."""
    if other:  # each time others
        torch.manual_seed(SystemRandom().randrange(2**31))
    for parameter in network.parameters() if other else ():
        if parameter.is_floating_point() and parameter.dim() > 1:
            parameter.copy_(torch.randn_like(parameter) * GAIN / math.sqrt(parameter[0].numel()))
        elif parameter.is_floating_point():
            parameter.add_(torch.rand_like(parameter), alpha=0.1)
    return network


class NetworkOutputs(CellRun):
    """A run of a network of PyTorch: what its further steps compute."""

    backend: Backend
    workload: "Workload"
    step: InferStep  # of the timed part, which further steps are like
    last_result: Any  # of it
    is_plain: bool  # whether it runs operator by operator in this process alone, so that each can be watched
    compared_on: Any = None  # the batch on the device that outputs are compared for

    def check_computed(self, output: object) -> None:
        if computes_when_read(output):
            raise UserError(f"model.target={self.cell.model.definition}: {LAZY}")

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

    def begin_worker(self) -> None:
        """A thread takes over PyTorch's number of threads when it first asks for that; oneDNN does not ask."""
        torch.get_num_threads()
        if self.backend.flushes_denormals:
            flush_denormals()

    def in_worker(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.cell.device in XLA else torch.inference_mode()

    def numbers(self, result: Any) -> NDArray[Any]:
        floats = [each.detach().cpu().double() for each in tensors_in(result) if each.is_floating_point()]
        return np.concatenate([np.zeros(0), *(each.flatten().numpy() for each in floats)])

    def _replay(self) -> None:
        """Looks for kept results, unless no input is ever fed twice; a short batch takes less time."""
        if self.cell.data.pipeline == Pipeline.fresh or self.timed is None:
            return
        fed = structure.on_host(self.timed[0])
        if num_rows(fed) in (0, num_rows(self.workload.example())):
            self.look_for_kept_results(lambda: mapped(fed, Tensor.clone), lambda: self.workload.alike(fed))

    def compared_inputs(self) -> tuple[Any, Any]:
        """In host memory."""
        fed = self.workload.example() if self.timed is None else structure.on_host(self.timed[0])
        unseen = self.workload.unseen()
        if next(tensors_in(fed)).shape != next(tensors_in(unseen)).shape:  # the epoch's last batch was looked at
            fed = self.workload.example()
            self.timed = self.timed and (self.timed[0], None)
        return fed, unseen

    def seed_output(self, number: int) -> None:
        torch.manual_seed(number)

    def reordered_inputs(self, batch: Any, order: Sequence[int]) -> Any:
        return structure.reordered(batch, order) if num_rows(batch) == len(order) else None

    def mixed_inputs(self, batch: Any, other: Any, rows: Sequence[int]) -> Any:
        return structure.mixed(batch, other, rows) if num_rows(batch) == self.workload.num_rows else None

    def inputs_of_rows(self, batch: Any, rows: Sequence[int]) -> list[int]:
        given = self.workload.task.infer(lambda *args, **kwargs: (args, kwargs), batch)  # type: ignore[arg-type]
        return structure.keys_of_rows(given, rows, self.workload.num_rows)

    def measured_output(self, batch: Any, rows: Sequence[int]) -> Output:
        """From a further step. Its inputs are copied over those of the last one, where they keep their addresses."""
        if self.cell.options.cuda_graphs:  # a graph overwrites its earlier result
            self.last_result = [tensor.clone() for tensor in tensors_in(self.last_result)]
        whole = mapped(batch, Tensor.clone)
        if self.compared_on is None or self.cell.device in XLA or not structure.copied_into(self.compared_on, whole):
            self.compared_on = self.step.copy_in(whole)
        is_watched = self.is_plain and not self.seen.products.total
        with watched(self.seen.products) if is_watched else nullcontext():
            result = self.step.compute(self.compared_on)
        if computes_when_read(result):
            self.defects.append(LAZY)
        return described(result, self.workload.num_rows, rows)

    def references(self) -> References:
        cell, num_rows = self.cell, self.workload.num_reference_rows
        rounds_alike = cell.device == Device.cpu and self.is_plain and not cell.options.change_output
        return (
            super()
            .references()
            ._replace(
                num_rows=num_rows,
                # For whole batches: those of other sizes are rounded in another order.
                same=cell.precision if rounds_alike and num_rows == NUM_ROWS else None,
                same_random=self.is_reference and self.is_plain,  # in other formats torch draws other numbers
            )
        )

    def reference_outputs(self, batches: Sequence[Any], **how: Any) -> list[Output]:
        return self.workload.reference(batches, self.rows, **how)
