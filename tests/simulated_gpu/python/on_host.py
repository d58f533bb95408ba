"""Computes on the CPU what is on the simulated GPU, whose memory is the host's: each operator gets views of it.

What holds there as on a real one: operands on two devices are refused, `.item()` and copies to the host wait, and an
operator that is captured in a CUDA graph runs again, on the same memory, when the graph is replayed.
"""

import ctypes
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

OPERATOR_US = 5.0  # for which each one keeps the GPU busy
aten = torch.ops.aten
# Operators that allocate memory or look at tensors: PyTorch's own ones do.
NATIVE = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view", "record_stream"}
NATIVE |= {"is_pinned", "_pin_memory"}
# Operators whose operands may be on two devices.
MIXED = {"_to_copy", "copy_", "index", "index_put_", "_index_put_impl_", "index_put"}

library = ctypes.CDLL(None)
library.simulated_busy.argtypes = [ctypes.c_double]


class OnHost(TorchDispatchMode):
    captured: list | None = None  # calls of the CUDA graph that is captured now

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        leaves = tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        device = kwargs.get("device")
        makes_cuda = device is not None and torch.device(device).type == "cuda"
        is_fake = any(isinstance(tensor, FakeTensor) for tensor in tensors)
        if is_fake or not (makes_cuda or any(tensor.is_cuda for tensor in tensors)):
            return function(*args, **kwargs)
        name = function.overloadpacket.__name__
        if function._can_decompose():
            with self, _casting():
                return function.decompose(*args, **kwargs)
        if _is_view(function) or name in NATIVE or function.namespace not in ("aten", "prims"):
            return function(*args, **kwargs)
        if name in ("_to_copy", "copy_") and _is_plain_copy(args, kwargs):
            return function(*args, **kwargs)  # by the runtime
        devices = {tensor.device.type for tensor in tensors if tensor.dim()}
        if len(devices) > 1 and name not in MIXED:
            raise RuntimeError(f"Expected all tensors to be on the same device: {function} got {devices}")
        library.simulated_busy(OPERATOR_US)
        return self._computed(function, name, args, kwargs)

    def _computed(self, function, name, args, kwargs):
        on_host = {}

        def moved(leaf):
            if isinstance(leaf, torch.Generator):
                return None
            if not isinstance(leaf, Tensor) or not leaf.is_cuda:
                return leaf
            view = _view(leaf)
            on_host[id(view)] = view, leaf
            return view

        device = kwargs.get("device")
        leaves_gpu = name == "_to_copy" and device is not None and torch.device(device).type == "cpu"
        args, kwargs = tree_map(moved, (args, kwargs))
        if device is not None:
            kwargs["device"] = "cpu"
        function = SUBSTITUTES.get(name, function)
        result = function(*args, **kwargs)
        if name == "_local_scalar_dense" or leaves_gpu:
            torch.cuda.synchronize()
            return result

        def returned(leaf):
            if not isinstance(leaf, Tensor):
                return leaf
            if id(leaf) in on_host:
                return on_host[id(leaf)][1]
            own = torch.empty_strided(leaf.size(), leaf.stride(), dtype=leaf.dtype, device="cuda")
            _view(own).copy_(leaf)
            return own

        given = tree_map(returned, result)
        if OnHost.captured is not None:
            OnHost.captured.append((function, args, kwargs, given))
        return given


class Autocasts(TorchFunctionMode):
    """Notes whether autocast is on at each call of torch: a mode that is asked later can't see it."""

    is_on = False

    def __torch_function__(self, function, types, args=(), kwargs=None):
        Autocasts.is_on = torch.is_autocast_enabled("cuda")
        return function(*args, **(kwargs or {}))


@contextmanager
def _casting():
    """Has autocast see the parts of an operator, as where no mode is asked."""
    excluded = torch._C._dispatch_tls_local_exclude_set()
    if Autocasts.is_on:
        excluded = excluded.remove(torch._C.DispatchKey.AutocastCUDA)
    with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded):
        yield


def _is_view(function):
    returns = function._schema.returns
    is_alias = any(each.alias_info is not None and not each.alias_info.is_write for each in returns)
    return is_alias or torch.Tag.inplace_view in function.tags


def _is_plain_copy(args, kwargs):
    """Whether it copies between the host and the GPU without a change of the format or the order."""
    if len(args) > 1 and isinstance(args[1], Tensor):
        to, source = args[:2]
        alike = to.dtype == source.dtype and to.stride() == source.stride() and to.shape == source.shape
        return to.device.type != source.device.type and alike
    device = torch.device(kwargs.get("device") or args[0].device)
    is_same = kwargs.get("dtype") in (None, args[0].dtype)
    return device.type != args[0].device.type and is_same and args[0].is_contiguous()


def _view(tensor):
    """The same memory, as a tensor of the CPU."""
    if not tensor.untyped_storage().nbytes():
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cpu")
    storage = tensor.untyped_storage()
    memory = (ctypes.c_byte * storage.nbytes()).from_address(storage.data_ptr())
    flat = torch.frombuffer(memory, dtype=torch.uint8)
    view = torch.empty(0, dtype=tensor.dtype, device="cpu")
    view.set_(flat.untyped_storage(), tensor.storage_offset(), tensor.size(), tensor.stride())
    return view.conj() if tensor.is_conj() else view


def _batch_norm(inputs, weight, bias, mean, variance, training, momentum, eps):
    found = aten.native_batch_norm(inputs, weight, bias, mean, variance, training, momentum, eps)
    return *found, torch.empty(0, dtype=torch.uint8)


def _batch_norm_backward(inputs, grad, weight, mean, variance, saved_mean, saved_deviation, eps, reserve):
    saved = mean, variance, saved_mean, saved_deviation
    return aten.native_batch_norm_backward(grad, inputs, weight, *saved, True, eps, [True] * 3)


MODES = {0: torch.rnn_relu, 1: torch.rnn_tanh, 2: torch.lstm, 3: torch.gru}  # as cuDNN numbers them


def _run_rnn(inputs, weights, per_layer, hidden, cell, mode, layers, batch_first, dropout, train, both, *_):
    states = (hidden, cell) if cell is not None else hidden
    run = MODES[mode]
    return run(inputs, states, list(weights), per_layer == 4, layers, dropout, train, both, batch_first)


def _rnn(inputs, weights, per_layer, buffer, hidden, cell, mode, size, projected, *others):
    output, *states = _run_rnn(inputs, weights, per_layer, hidden, cell, mode, *others)
    states += [torch.empty(0)] * (2 - len(states))
    return output, *states, torch.empty(0, dtype=torch.uint8), torch.empty(0)


def _rnn_backward(
    inputs, weights, per_layer, buffer, hidden, cell, output, grad, grad_hidden, grad_cell, mode, *others
):
    def run():
        leaves = [each.detach().requires_grad_() for each in (inputs, hidden, *states, *weights)]
        own_cell = leaves[2] if states else None
        rest = leaves[2 + len(states) :]
        found = _run_rnn(leaves[0], rest, per_layer, leaves[1], own_cell, mode, *others[2:])
        known = [pair for pair in zip(found, (grad, grad_hidden, grad_cell), strict=False) if pair[1] is not None]
        return torch.autograd.grad([each for each, _ in known], leaves, [its for _, its in known])

    states = [cell] if cell is not None else []
    with ThreadPoolExecutor(1) as fresh:  # here, PyTorch records nothing
        grads = fresh.submit(run).result()
    of_cell = grads[2] if states else torch.empty(0)
    return grads[0], grads[1], of_cell, list(grads[2 + len(states) :])


# What only a GPU has -> what computes the same on the CPU.
SUBSTITUTES = {
    "cudnn_batch_norm": _batch_norm,
    "cudnn_batch_norm_backward": _batch_norm_backward,
    "_cudnn_rnn": _rnn,
    "_cudnn_rnn_backward": _rnn_backward,
    "_cudnn_rnn_flatten_weight": lambda weights, *_: weights[0],
    "_cudnn_init_dropout_state": lambda *_, **__: torch.empty(1, dtype=torch.uint8),
}


def _keep_captures(graph):
    """Has a class of CUDA graphs keep what it captures, and run it when it is replayed."""
    begin, end = graph.capture_begin, graph.capture_end

    def capture_begin(self, *args, **kwargs):
        begin(self, *args, **kwargs)
        OnHost.captured = self.calls = []
        self.infers = torch.is_inference_mode_enabled()  # whose tensors change in place only there

    def capture_end(self):
        OnHost.captured = None
        end(self)

    def replay(self):
        for function, args, kwargs, given in self.calls:
            library.simulated_busy(OPERATOR_US)
            with torch.inference_mode(self.infers):
                pairs = zip(tree_leaves(given), tree_leaves(function(*args, **kwargs)), strict=True)
                for before, now in pairs:
                    if isinstance(now, Tensor) and now.numel():
                        _view(before).copy_(now)

    graph.capture_begin, graph.capture_end, graph.replay = capture_begin, capture_end, replay


def _join_by_gloo():
    """Has processes join by gloo, since NCCL brings a CUDA of its own."""
    init = torch.distributed.init_process_group

    def init_by_gloo(backend=None, *args, **kwargs):
        return init("gloo", *args, **kwargs)

    torch.distributed.init_process_group = init_by_gloo


def enter():
    """Begins it in this thread, and in the threads of its backward passes."""
    for kind in ("flash", "mem_efficient", "cudnn"):  # attention that has kernels of its own
        getattr(torch.backends.cuda, f"enable_{kind}_sdp")(False)
    _keep_captures(torch.cuda.CUDAGraph)
    _join_by_gloo()
    Autocasts().__enter__()
    OnHost().__enter__()
