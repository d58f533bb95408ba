"""Counts the work of one step: floating-point operations, bytes and operators. Also profiles the busiest operators.

For the count, the step runs once on a copy of the network with fake tensors. PyTorch's fake tensors have shapes but no
contents, so the step needs no memory and almost no time. The tensors pretend to be on the CPU. So autocast, attention
and recurrent layers use the operators of the CPU, even if the cell's device is a GPU.
"""

import copy
import functools
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import HigherOrderOperator, OpOverload
from torch.autograd.profiler import profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import conv_flop_count, flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.module import needs_closure, new_optimizer
from accelbench.engines.pytorch.precision import DTYPES, STORED_DTYPES, real_format
from accelbench.engines.pytorch.structure import mapped, tensors_in
from accelbench.measuring.checks import Products
from accelbench.measuring.clock import Ask, Clock
from accelbench.schema.ceilings import MIXED
from accelbench.schema.cell import Cell, Mode
from accelbench.schema.measurement import Operator, Work
from accelbench.schema.text import beginning, message_of, one_line

aten = torch.ops.aten
MAX_REASON = 300  # characters
MAX_OPERATORS = 10
WINOGRADS = 5  # the largest kernel size for which libraries use Winograd's algorithm
# Operator -> index of the weight among its arguments.
CONVOLUTIONS = {aten.convolution: 1, aten.convolution_backward: 2}
IN_PLACE = torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)
OF_GENERATION = "the operators of a generation are too many to count"
# Parts of torch's error messages for a network that needs gradients in inference, such as one that computes forces.
OF_GRADIENTS = ("inference tensor", "does not require grad", "inference_mode", "outside InferenceMode")
OF_CLOSURES = "the optimiser computes the loss several times in a step, and this number varies"

# Names of PyTorch's operators that compute matrix products or as much as products. If such an operator has no formula,
# the count is unknown. All other operators are not counted: they move numbers or do a few operations with each number.
PRODUCTS = re.compile(
    r"mm|mv|dot|einsum|matmul|conv(?!ert)|linear|lstm|gru|rnn|attention|dist|fft|linalg_(?!vector_norm)|cholesky|solve|qr|svd|eig"
)
# Operators that make views or allocate memory.
VIEWS = {
    "_unsafe_view",
    "unsafe_split",
    "unsafe_split_with_sizes",
    "unsafe_chunk",
    "_reshape_alias",
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
}
# Operators that read only the rows that they return.
PICKING = {"index", "_unsafe_index", "index_select", "gather", "embedding"}


def count(cell: Cell, network: nn.Module, task: Any, batch: Any) -> Work:
    """Counts the work of one step of `cell`. If this fails, all counts are None, and `uncounted` has the reason.

    The step runs with fake tensors, which have no contents: a copy of the network, and a batch with the shapes and
    dtypes of `batch`. The copy has the same hooks as the network. So the engine must remove its own hooks first.
    """
    if cell.mode == Mode.generate:
        return Work(uncounted=[OF_GENERATION])
    try:
        with _fake_tensors():
            fake = mapped(batch, lambda part: _empty(part, part.dtype))
            return _counted(cell, _hollow(network, STORED_DTYPES[cell.precision]), task, fake)
    except Exception as error:  # a user's network may raise anything
        return not_counted(error)


def _counted(cell: Cell, network: nn.Module, task: Any, batch: Any) -> Work:
    """Runs one step of `cell` on the CPU. Returns the work of the step.

    The work of a training step is the work of the forward pass, the loss, the backward pass and the optimiser. The
    optimiser runs twice, and only its second step is counted, because its first step creates its state. The gradient
    scaler does not run. `task` has the methods `infer` and `train` of `module.ImageTask`.

    For cells on a GPU, `num_operators` and `bytes` are too high. Here, the optimiser runs operators for each parameter,
    but on a GPU, one operator updates many parameters. On a GPU, a recurrent layer of cuDNN is only one operator, too.
    """
    precision = cell.precision
    context = torch.autocast("cpu", dtype=DTYPES[precision]) if precision in MIXED else nullcontext()
    network.train(cell.mode == Mode.train)
    if cell.mode != Mode.train:
        with context:
            return _inferred(network, task, batch)
    counter = Counter()
    with counter:
        with context:
            _, loss = task.train(network, batch)
        loss.backward()
    optimizer = new_optimizer(cell.model, network)
    if needs_closure(optimizer):
        return Work(uncounted=[OF_CLOSURES])
    optimizer.step()  # creates its state
    with counter:
        optimizer.step()
    return counter.work()


def _inferred(network: nn.Module, task: Any, batch: Any) -> Work:
    try:
        with torch.no_grad():
            inputs = mapped(batch, Tensor.clone)  # copies: the network may change its inputs
            with Counter() as counter:
                task.infer(network, inputs)
    except RuntimeError as error:
        if not needs_gradients(error):
            raise
        with Counter() as counter:
            task.infer(network, batch)
    return counter.work()


def needs_gradients(error: Exception) -> bool:
    """Is true if `error` shows that inference failed because the network needs gradients."""
    return isinstance(error, RuntimeError) and any(words in str(error) for words in OF_GRADIENTS)


def not_counted(error: Exception) -> Work:
    """Returns a `Work` without counts. Its `uncounted` has the error."""
    why = beginning(one_line(message_of(error)), MAX_REASON)
    return Work(uncounted=[f"{type(error).__name__}: {why}" if why else type(error).__name__])


def _fake_tensors() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode  # a slow import: it imports sympy

    class FakeTensors(FakeTensorMode):
        # Computed only once. torch would compute this value for each operator, which takes 1.5 ms without a driver.
        avoid_device_init = not torch.cuda.is_available()

    return FakeTensors(allow_non_fake_inputs=True)


def _hollow(network: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Copies `network` to `dtype`, with fake tensors that have no contents. Call this function in a FakeTensorMode."""
    memo: dict[int, Any] = {}
    for tensor in tensors_in([vars(layer) for layer in network.modules()]):
        memo[id(tensor)] = _empty(tensor, tensor.dtype)  # a tensor that is a plain attribute keeps its dtype
    for tensor in [*network.parameters(), *network.buffers()]:
        fake = _empty(tensor, dtype if tensor.is_floating_point() else tensor.dtype)
        memo[id(tensor)] = (
            nn.Parameter(fake, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else fake
        )
    return copy.deepcopy(network, memo)


def _empty(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype, device="cpu")


class Counter(TorchDispatchMode):
    """A context that adds up the work of all operators that run in it.

    It leaves torch.inference_mode. In that mode, it would get composite operators, such as einsum, before torch splits
    them into operators with formulas.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.products = Products()
        self.flops_of_large_kernels = 0
        self.bytes = 0
        self.num_operators = 0

    def __enter__(self) -> Any:
        has_gradients = torch.is_grad_enabled()
        self.contexts = ExitStack()
        self.contexts.enter_context(torch.inference_mode(False))
        self.contexts.enter_context(torch.set_grad_enabled(has_gradients))
        if not has_gradients:  # a network may change tensors in place that it made in torch.inference_mode
            self.contexts.enter_context(torch._C._ExcludeDispatchKeyGuard(IN_PLACE))
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.contexts.close()

    def work(self, num_steps: int = 1) -> Work:
        """Returns the counted work, divided by the number of steps that ran."""
        products = self.products
        return Work(
            flops=None if products.uncounted else products.total // num_steps,
            large_kernels=self.flops_of_large_kernels / max(1, products.total),
            bytes=self.bytes // num_steps,
            num_operators=self.num_operators // num_steps,
            uncounted=sorted(products.uncounted),
        )

    def __torch_dispatch__(
        self,
        func: OpOverload | HigherOrderOperator,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Runs an operator and counts its work."""
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator):  # such as torch.cond, which hides its operators
            self.products.uncounted.add(str(func))
            return func(*args, **kwargs)
        result = func(*args, **kwargs)
        if not does_nothing(func):
            try:
                self._count(func, args, kwargs, result)
            except Exception:  # nested and sparse tensors have no sizes or strides
                self.products.uncounted.add(str(func.overloadpacket))
        return result

    def _count(self, func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> None:
        packet = func.overloadpacket
        # A formula returns a number of operations. It gets the operator's arguments, and its result as `out_val`.
        formula = FORMULAS.get(packet) or flop_registry.get(packet)
        self.num_operators += 1
        self.bytes += _num_bytes(func, args, kwargs, result)
        if formula is None:
            if not _has_no_flops(func):
                self.products.uncounted.add(str(packet))
            return
        factor = next(tensors_in(args))
        if real_format(factor) in WHOLE:
            return
        num = formula(*args, **kwargs, out_val=result)
        self.products.add(num, "int8" if packet in QUANTIZED else real_format(factor), factor.device.type)
        if packet in CONVOLUTIONS and max(args[CONVOLUTIONS[packet]].shape[2:]) > WINOGRADS:
            self.flops_of_large_kernels += num


def busiest(backend: Backend) -> Clock[list[Operator]]:
    """Profiles one more step. Returns at most `MAX_OPERATORS` operators, the one with the most time first.

    The time of an operator does not include the operators that it calls. So `aten::conv2d` takes almost no time, but
    `aten::mkldnn_convolution`, which it calls, takes the time of the convolution. On a GPU, only kernels are timed. For
    devices that are neither CPUs nor NVIDIA GPUs, the list is empty, because the profiler measures only launches there.
    """
    if backend.torch_type not in ("cpu", "cuda"):
        return []
    on_gpu = backend.torch_type == "cuda"
    # The first use of `torch.profiler` in a process takes seconds. `profile` without Kineto does not. A GPU needs
    # Kineto: without it, the time of an operator would begin with its launch.
    profiled = profile(use_device="cuda" if on_gpu else None, use_kineto=on_gpu)
    yield Ask(within=profiled)
    # Events of the CPU are operators. Events of the GPU are kernels.
    events = [event for event in profiled.key_averages() if event.device_type.name == "CPU"]
    time_of = attrgetter("self_device_time_total" if on_gpu else "self_cpu_time_total")
    total = sum(map(time_of, events))
    slowest = sorted(filter(time_of, events), key=time_of, reverse=True)[:MAX_OPERATORS]
    return [
        Operator(name=event.key, num_calls=event.count, share=time_of(event) / total) for event in slowest
    ]


@functools.cache
def does_nothing(func: OpOverload) -> bool:
    """Is true if the operator only makes a view, allocates memory or reads a shape. It computes and moves nothing."""
    name, returns = func.overloadpacket.__name__, func._schema.returns
    if func.namespace == "prim" or name in VIEWS or torch.Tag.inplace_view in func.tags:
        return True
    if any(out.alias_info is not None and not out.alias_info.is_write for out in returns):
        return True
    return name != "_local_scalar_dense" and not any("Tensor" in str(out.type) for out in returns)


@functools.cache
def _has_no_flops(func: OpOverload) -> bool:
    """Is true if the operator surely computes no product. Is false if unknown, as for operators of other libraries."""
    if func.namespace not in ("aten", "prims"):
        return False
    name = func.overloadpacket.__name__
    if name.startswith("_foreach_"):  # optimisers use these, such as `_foreach_sqrt`
        return True
    return torch.Tag.pointwise in func.tags or "upsample" in name or PRODUCTS.search(name) is None


def _num_bytes(func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> int:
    """Returns how many bytes the operator moves if it reads each input once and writes each output once."""
    moved = [args, kwargs, result]
    if func.overloadpacket.__name__ in PICKING:
        moved = [args[1:], kwargs, result, result]
    # An expanded tensor has more elements than its memory.
    return sum(min(tensor.nbytes, tensor.untyped_storage().nbytes()) for tensor in tensors_in(moved))


def _convolution_backward(grad: Tensor, inputs: Tensor, weight: Tensor, *args: Any, **_: Any) -> int:
    """Counts the operations of a convolution's gradients.

    The gradient of the inputs takes as many operations as the forward pass. So does the gradient of the weight.
    """
    # PyTorch's formula is not used: it counts the weight gradient of a grouped convolution once for each group.
    transposed, output_mask = args[4], args[7]
    forward = conv_flop_count(list(inputs.shape), list(weight.shape), list(grad.shape), transposed=transposed)
    return forward * int(sum(output_mask[:2]))


def _attention(
    query: Tensor, key: Tensor, value: Tensor, dropout: float = 0.0, is_causal: bool = False, **_: Any
) -> int:
    """Counts the products of queries and keys, and of scores and values. A causal mask leaves half of the scores."""
    num: int = sdpa_flop_count(query.shape, key.shape, value.shape)
    return num // 2 if is_causal else num


def _attention_backward(grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *args: Any, **_: Any) -> int:
    num: int = sdpa_backward_flop_count(grad.shape, query.shape, key.shape, value.shape)
    is_causal = args[3]
    return num // 2 if is_causal else num


def _self_attention(query: Tensor, key: Tensor, *args: Any, **_: Any) -> int:
    """Counts `nn.MultiheadAttention` in inference: attention, and projections of queries, keys, values and output."""
    batch, length, width = query.shape
    num_keys = key.shape[1]
    return 2 * batch * (2 * length * width**2 + 2 * num_keys * width**2 + 2 * length * num_keys * width)


def _encoder_layer(sequence: Tensor, *args: Any, **_: Any) -> int:
    """Counts `nn.TransformerEncoderLayer` in inference: its attention and its two dense layers."""
    batch, length, _width = sequence.shape
    dense = 2 * batch * length * (args[13].numel() + args[15].numel())
    return _self_attention(sequence, sequence) + int(dense)


def _lstm(sequence: Tensor, weight: Tensor, recurrent: Tensor, *args: Any, **_: Any) -> int:
    """Counts one LSTM layer in one direction. A time step computes all gates from the input and the previous state."""
    steps, batch = sequence.shape[:2]
    return 2 * steps * batch * (weight.numel() + recurrent.numel())


def _lstm_backward(sequence: Tensor, weight: Tensor, recurrent: Tensor, *args: Any, **_: Any) -> int:
    """Counts the gradients of an LSTM layer. The gradients of the inputs and of the weights are two forward passes.

    The gradients of the sequence and of the first state are counted only if they are needed.
    """
    state = args[2]  # follows the two biases
    steps, batch = sequence.shape[:2]
    skipped = 0 if sequence.requires_grad else steps * weight.numel()
    skipped += 0 if state.requires_grad else recurrent.numel()
    return 2 * (_lstm(sequence, weight, recurrent) - batch * skipped)


quantized = torch.ops.quantized
WHOLE = ("int16", "int32", "int64")  # formats of products that are neither floating-point nor quantised
QUANTIZED = (
    quantized.linear,
    quantized.linear_relu,
    quantized.linear_dynamic,
    quantized.linear_relu_dynamic,
)
FORMULAS: dict[Any, Callable[..., int]] = {
    **dict.fromkeys(QUANTIZED, lambda inputs, *_, out_val, **__: 2 * inputs.numel() * out_val.shape[-1]),
    aten.convolution_backward: _convolution_backward,
    aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
    aten._native_multi_head_attention: _self_attention,
    aten._transformer_encoder_layer_fwd: _encoder_layer,
    aten.mkldnn_rnn_layer: _lstm,
    aten.mkldnn_rnn_layer_backward: _lstm_backward,
    aten.mv: lambda matrix, *_, **__: 2 * matrix.numel(),
    aten.dot: lambda vector, *_, **__: 2 * vector.numel(),
    aten.addmv: lambda addend, matrix, *_, **__: 2 * matrix.numel(),
}
