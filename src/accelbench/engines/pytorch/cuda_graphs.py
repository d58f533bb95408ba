"""A network's own kernels as CUDA graphs: recorded once for each kind of input, and then launched together."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from accelbench.errors import UnsupportedError
from accelbench.schema.text import is_out_of_memory, message_of, summary

NUM_WARMUPS = 3  # runs before a graph is recorded, in which libraries choose kernels and take memory

Run = Callable[..., Any]  # of the tensors of an input


class Graphed(nn.Module):
    """The network with the same weights. A further shape, or another mode, records a further graph.

    As of a compiled network, an output is overwritten by the next call.
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
        network = _OfTensors(self._orig_mod, leaves, structure)
        network.train(self.training)
        try:
            # A cast that autocast keeps from one call to the next would be missing from the graph.
            casts = torch.is_autocast_enabled("cuda")
            with torch.autocast("cuda", cache_enabled=False) if casts else nullcontext():
                if torch.is_grad_enabled():
                    samples = tuple(tensor.clone() for tensor in tensors)
                    return torch.cuda.make_graphed_callables(network, samples, NUM_WARMUPS, allow_unused_input=True)
                return _replayed(network, tensors)
        except Exception as error:  # capturing runs the network's code, which may raise anything
            if is_out_of_memory(error):
                raise
            reason = summary(message_of(error)) or type(error).__name__
            raise UnsupportedError(f"cuda_graphs=true: the network can't be recorded ({reason})") from error


class _OfTensors(nn.Module):
    """The network as a module that takes an input's tensors only. The input's other parts stay as they are."""

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
    """Runs the network in inference by a graph of its own, without the overhead of `make_graphed_callables`."""
    inputs = [tensor.clone() for tensor in tensors]
    main = torch.cuda.current_stream()
    side = torch.cuda.Stream()
    side.wait_stream(main)
    with torch.cuda.stream(side):
        for _ in range(NUM_WARMUPS):
            network(*inputs)
    main.wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = network(*inputs)

    def replay(*tensors: Tensor) -> Any:
        for static, tensor in zip(inputs, tensors, strict=True):
            static.copy_(tensor)
        graph.replay()
        return output

    return replay
