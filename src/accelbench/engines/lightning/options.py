"""A cell's options, applied to its network: memory layout, folding, compilation."""

import copy
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.fx.experimental.optimization import fuse

from accelbench.engines.lightning.module import InferStep
from accelbench.errors import UnsupportedError
from accelbench.measuring.runner import Compiles
from accelbench.schema.cell import Options


def prepared(network: nn.Module, options: Options) -> nn.Module:
    """The network, perhaps changed in place, with all options but those that compile it, or an UnsupportedError."""
    if options.freeze and not options.compile:  # when inductor compiles, it folds more
        network = _folded(network)
    if options.channels_last:
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def _folded(network: nn.Module) -> nn.Module:
    """The network in evaluation mode, its batch normalisations folded into the layers before them."""

    def num_norms(module: nn.Module) -> int:
        return sum(isinstance(each, nn.modules.batchnorm._BatchNorm) for each in module.modules())

    try:
        folded = fuse(copy.deepcopy(network).eval(), inplace=True)
    except Exception as error:  # tracing runs the network's code on symbols, which may raise anything
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UnsupportedError(f"freeze=true: torch.fx can't trace the network ({reason}); add compile=true") from error
    if num_norms(folded) == num_norms(network):
        raise UnsupportedError(
            "freeze=true: the network has no batch normalisation to fold into the layer before it: add compile=true"
        )
    return folded


@contextmanager
def empty_cache(options: Options) -> Iterator[None]:
    """A context in which inductor's cache is empty, so that compilation takes as long as on first use."""
    if not options.compile:
        yield
        return
    from torch._inductor.utils import fresh_cache

    with tempfile.TemporaryDirectory(prefix="inductor-") as folder, fresh_cache(dir=folder):
        yield


@torch.no_grad()
def run_plain(network: nn.Module, step: InferStep, batch: Any) -> None:
    """Runs the uncompiled network once on a batch in host memory, as `step` would, without changing it."""
    batch = step.copy_in(batch)
    training = network.training
    network.eval()
    with step.context():
        step.task.infer(network, batch)
    network.train(training)


def compiler_for(options: Options) -> "Compiler | None":
    """None if the network is not compiled."""
    return Compiler(options) if options.compile or options.cuda_graphs else None


class Compiler:
    """torch.compile, and a count of what it compiled.

    With `compile` the backend is inductor, which has its own CUDA graphs and freezing. `cuda_graphs` without `compile`
    records the network's plain kernels. A compilation inside another one is not counted.
    """

    def __init__(self, options: Options) -> None:
        import torch._dynamo  # these take seconds
        import torch._inductor.config

        self._options = options
        self._counters = torch._dynamo.utils.counters
        self._num, self._seconds, self._started = 0, 0.0, 0.0
        torch._dynamo.reset()  # else code compiled with other options would be reused
        self._counters.clear()
        # By default, code beyond the recompilation limit would run uncompiled, with only a log line.
        torch._dynamo.config.fail_on_recompile_limit_hit = True
        # As an option of torch.compile it has no effect: the tracer reads it from here.
        torch._inductor.config.freezing = options.freeze
        torch._dynamo.callback.on_compile_start(self._start)
        torch._dynamo.callback.on_compile_end(self._end)

    def compiled(self, network: nn.Module) -> nn.Module:
        """The network as compiled code with the same weights; it is compiled when it is first called."""
        if self._options.compile:
            compiled: Any = torch.compile(network, mode="reduce-overhead" if self._options.cuda_graphs else None)
        else:
            compiled = torch.compile(network, backend="cudagraphs")
        assert isinstance(compiled, nn.Module)  # it is annotated as a mere callable
        return compiled

    def compiles(self) -> Compiles:
        return self._num, self._seconds

    def warnings(self) -> Iterator[str]:
        """Says which parts of the network were not compiled; raises an UnsupportedError if none was."""
        if not self._counters["stats"]["unique_graphs"]:
            raise UnsupportedError(
                f"{self._options.of_network[-1]}=true: torch.compile found nothing in the network that it compiles"
            )
        if num := sum(self._counters["graph_break"].values()):
            yield f"torch.compile left parts of the network as they are: {num} graph breaks"

    def _start(self, _: object) -> None:
        self._started = time.perf_counter()

    def _end(self, _: object) -> None:
        self._num += 1
        self._seconds += time.perf_counter() - self._started
