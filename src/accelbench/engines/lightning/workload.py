"""What a cell computes: its network, its batches, and the inputs that its outputs are compared for."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from random import SystemRandom
from typing import Any, Protocol

import torch
from torch import nn

from accelbench.engines.lightning.feed import Feed
from accelbench.engines.lightning.global_state import DETERMINISTIC, restore, values_of_a_cell
from accelbench.engines.lightning.precision import DTYPES, MIXED, STORED_DTYPES
from accelbench.engines.lightning.task import Task
from accelbench.engines.sources import Shape
from accelbench.measuring.output_check import Output
from accelbench.schema.vocab import Precision

GAIN = 1.5  # of weights: for most activations, neither does the influence of an input vanish, nor does it explode


class Workload(Protocol):
    """What the engine asks of a cell's network and data. All batches that it returns are in host memory.

    `num_rows` of a batch each give a row of the output; the first output may show how many. `reference` runs the
    network for the first `num_reference_rows` of the rows that it is given.
    """

    num_rows: int
    num_reference_rows: int

    @property
    def feed(self) -> Feed:
        """The batches that are measured."""

    @property
    def task(self) -> Task:
        """What runs the network on them; it may be known only after `build`."""

    def build(self) -> nn.Module:
        """A new network, its weights drawn from torch's generator."""

    def check_layout(self) -> None:
        """Raises an UnsupportedError if `channels_last` has no effect on the inputs."""

    def check_first(self, output: object) -> None:
        """Raises a UserError if the output of the first step is not what the cell needs."""

    def test_feed(self) -> Feed:
        """The batches of the test set."""

    def calibration(self) -> Iterable[Any]:
        """Batches to find the ranges of activations with: of the training set, or as the feed draws them."""

    def shapes(self) -> Sequence[Shape] | None:
        """The shapes that the output may have; None if it may be any structure of tensors."""

    def example(self) -> Any:
        """A whole batch as the feed gives it to inference."""

    def some_batch(self) -> Any:
        """A whole batch as the feed gives it; its tensors need no contents."""

    def unseen(self, *, labelled: bool = False) -> Any:
        """A further batch that the feed never gives; if `labelled`, as it gives it to training."""

    def alike(self, batch: Any) -> Any:
        """A further batch that the feed never gives, drawn as this one of the feed was: on it a step does as much."""

    def reference(
        self, batches: Sequence[Any], rows: Sequence[int], *, other: bool = False, precision: Precision | None = None
    ) -> list[Output]:
        """These rows of the outputs of a newly built network on the CPU for each of `batches`, in fp32 by default.

        To be called outside of the Trainer, inside which torch creates new weights in the cell's precision. With
        `other`, the network has other weights. The batches are as the feed gives them to inference.
        """

    def tokens_per_sample(self) -> float | None:
        """Tokens of the batches over their samples; None if nothing counts them."""

    def notes(self) -> Iterator[str]:
        """What a reader should know of how the batches are used."""


def set_again() -> None:
    """Sets what is global in PyTorch for a network in fp32: the user's code may have changed it while it was built."""
    restore({**values_of_a_cell(allow_tf32=False), DETERMINISTIC: 0})


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


def in_precision(precision: Precision) -> tuple[torch.dtype, AbstractContextManager[Any]]:
    """What new networks on the CPU store in `precision`, and the context that they compute in."""
    is_mixed = precision in MIXED
    return STORED_DTYPES[precision], torch.autocast("cpu", DTYPES[precision]) if is_mixed else nullcontext()
