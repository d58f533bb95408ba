"""Applies a cell's options to its network: memory format, folding of layers, compilation, CUDA graphs."""

import copy
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils._pytree import tree_flatten, tree_unflatten

from accelbench.engines.pytorch.module import InferStep
from accelbench.engines.pytorch.zoo import modes_of, set_modes
from accelbench.errors import UnsupportedError
from accelbench.schema.cell import Options
from accelbench.schema.text import is_out_of_memory, message_of, one_line, summary

NUM_WARMUPS = 3  # runs before a CUDA graph is recorded: libraries choose kernels and allocate memory in them

Run = Callable[..., Any]  # a network, called with the tensors of an input


def prepared(network: nn.Module, options: Options) -> nn.Module:
    """Applies all options except compilation. Returns the network. Some options change the given network in place.

    Raises UnsupportedError if an option can't be applied.
    """
    if options.freeze and not options.compile:  # with `compile`, inductor folds, and it folds more layers
        network = _folded(network)
    if options.channels_last:
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def _folded(network: nn.Module) -> nn.Module:
    """Returns a copy of the network in evaluation mode. Batch normalisations are folded into the layers before them."""
    from torch.fx.experimental.optimization import fuse  # a slow import: it imports sympy

    try:
        folded = fuse(copy.deepcopy(network).eval(), inplace=True)
    except Exception as error:  # tracing runs the user's code with symbols, which may raise any exception
        reason = one_line(message_of(error).partition("\n")[0]) or type(error).__name__
        raise UnsupportedError(
            f"freeze=true: torch.fx can't trace the network ({reason}): add compile=true"
        ) from error
    if _num_norms(folded) == _num_norms(network):
        raise UnsupportedError(
            "freeze=true: no batch normalisation of the network can be folded into a layer: add compile=true"
        )
    return folded


def _num_norms(network: nn.Module) -> int:
    return sum(isinstance(layer, _BatchNorm) for layer in network.modules())


@contextmanager
def empty_cache() -> Iterator[None]:
    """Gives torch.compile an empty cache inside the context, so that compilation takes as long as the first time."""
    from torch._inductor.utils import fresh_cache

    with tempfile.TemporaryDirectory(prefix="inductor-") as folder, fresh_cache(dir=folder):
        yield


@torch.no_grad()
def run_plain(network: nn.Module, step: InferStep, batch: Any) -> None:
    """Runs the uncompiled network once on a batch in host memory. The network does not change.

    The network runs in the context of `step`, which may be autocast.
    """
    batch = step.copy_in(batch)
    modes = modes_of(network)
    network.eval()
    with step.context():
        step.task.infer(network, batch)
    set_modes(network, modes)


def prepare_compiler(options: Options) -> bool:
    """Imports and configures torch.compile if `options` ask for compilation.

    Returns True if `options` ask for compilation or CUDA graphs.
    """
    if not options.compile:
        return options.cuda_graphs
    import torch._dynamo
    import torch._inductor.config

    torch._dynamo.reset()  # otherwise, code that was compiled with other options would be reused
    torch._dynamo.utils.counters.clear()
    # Set globally: as an option of torch.compile it has no effect, because the tracer reads the global value.
    torch._inductor.config.freezing = options.freeze
    return True


def compiled(network: nn.Module, options: Options) -> nn.Module:
    """Wraps the network. The first call of the returned network compiles it, or records its CUDA graph."""
    if not options.compile:
        return Graphed(network)
    config = torch._dynamo.config
    # By default, torch runs code beyond the recompilation limit uncompiled and only logs it. The user's code may have
    # set `suppress_errors` to ask for that.
    config.fail_on_recompile_limit_hit = not config.suppress_errors
    compiled: Any = torch.compile(network, mode="reduce-overhead" if options.cuda_graphs else None)
    assert isinstance(compiled, nn.Module)  # for mypy: torch annotates it as a callable
    return compiled


def compile_warnings(options: Options) -> Iterator[str]:
    """Yields warnings about parts of the network that were not compiled.

    Raises UnsupportedError if no part of the network was compiled.
    """
    if not options.compile:
        return
    counters = torch._dynamo.utils.counters
    if not counters["stats"]["unique_graphs"]:
        raise UnsupportedError(
            "compile=true: torch.compile compiled no part of the network: use compile=false"
        )
    if num := sum(counters["graph_break"].values()):
        yield f"torch.compile did not compile some parts of the network: {num} graph breaks"


class Graphed(nn.Module):
    """Records the network's kernels once as a CUDA graph, and then launches all of them together.

    A separate graph is recorded for each shape of the inputs, and for each mode (training or not, gradients or not).
    Each call overwrites the output of the call before.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self._orig_mod = network
        self._graphs: dict[Any, Run] = {}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree_flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        kinds = [(leaf.shape, leaf.dtype) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        key = (structure, *kinds, self.training, torch.is_grad_enabled(), torch.is_inference_mode_enabled())
        if key not in self._graphs:
            self._graphs[key] = self._recorded(leaves, structure, tensors)
        return self._graphs[key](*tensors)

    def _recorded(self, leaves: Sequence[Any], structure: Any, tensors: Sequence[Tensor]) -> Run:
        """Records a CUDA graph for inputs with these shapes and types. Returns a function that replays the graph."""
        network = _OfTensors(self._orig_mod, leaves, structure)
        network.train(self.training)
        try:
            # Without autocast's cache: a cast that autocast keeps between calls would be missing from the graph.
            casts = torch.is_autocast_enabled("cuda")
            with torch.autocast("cuda", cache_enabled=False) if casts else nullcontext():
                if torch.is_grad_enabled():
                    samples = tuple(tensor.clone() for tensor in tensors)
                    return torch.cuda.make_graphed_callables(
                        network, samples, NUM_WARMUPS, allow_unused_input=True
                    )
                return _replayed(network, tensors)
        except Exception as error:  # recording runs the user's code, which may raise any exception
            if is_out_of_memory(error):
                raise
            reason = summary(message_of(error)) or type(error).__name__
            raise UnsupportedError(f"cuda_graphs=true: the network can't be recorded ({reason})") from error


class _OfTensors(nn.Module):
    """A network whose `forward` accepts only the tensors of an input. All other parts of the input stay constant."""

    def __init__(self, network: nn.Module, leaves: Sequence[Any], structure: Any) -> None:
        super().__init__()
        self.network = network
        self._leaves = list(leaves)
        self._structure = structure

    def forward(self, *tensors: Tensor) -> Any:
        following = iter(tensors)
        leaves = [next(following) if isinstance(leaf, Tensor) else leaf for leaf in self._leaves]
        args, kwargs = tree_unflatten(leaves, self._structure)
        return self.network(*args, **kwargs)


def _replayed(network: Run, tensors: Sequence[Tensor]) -> Run:
    """Records inference as one CUDA graph, which has less overhead than a graph of `make_graphed_callables`."""
    cuda = torch.cuda
    inputs = [tensor.clone() for tensor in tensors]
    main = cuda.current_stream()
    side = cuda.Stream()
    side.wait_stream(main)
    with cuda.stream(side):
        for _ in range(NUM_WARMUPS):
            network(*inputs)
    main.wait_stream(side)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        output = network(*inputs)

    def replay(*tensors: Tensor) -> Any:
        for static, tensor in zip(inputs, tensors, strict=True):
            static.copy_(tensor)
        graph.replay()
        return output

    return replay
