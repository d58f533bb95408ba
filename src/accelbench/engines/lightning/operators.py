"""The floating-point operations of PyTorch's operators, and the bytes that they move."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import conv_flop_count, flop_registry

aten = torch.ops.aten

# Operators whose floating-point operations `Work.flops` does not count, by the names that `_family` shortens them to.
# Operators that PyTorch tags as pointwise are not counted either. The count of any other operator is unknown.
MAKING = (
    "zeros ones full new_zeros new_ones new_full zeros_like ones_like full_like fill zero arange linspace eye tril triu"
)
MAKING += " scalar_tensor rand rand_like randn randn_like randint randint_like randperm bernoulli normal uniform random"
MAKING += " exponential native_dropout"
COPYING = "copy to_copy clone cat stack repeat roll flip constant_pad_nd reflection_pad replication_pad im2col col2im"
COPYING += " pixel_shuffle pixel_unshuffle channel_shuffle local_scalar_dense"
INDEXING = "index unsafe_index index_put index_put_impl unsafe_index_put index_select index_add index_copy index_fill"
INDEXING += " gather scatter scatter_add scatter_reduce take masked_fill masked_scatter select slice select_scatter"
INDEXING += " slice_scatter diagonal unfold embedding embedding_dense embedding_bag nonzero masked_select one_hot"
REDUCING = "sum mean max min amax amin aminmax argmax argmin all any prod std var std_mean var_mean norm"
REDUCING += " linalg_vector_norm cumsum cumprod logsumexp topk sort count_nonzero"
ACTIVATING = "softmax log_softmax safe_softmax hardswish hardtanh hardsigmoid leaky_relu elu softplus log_sigmoid prelu"
ACTIVATING += " prelu_kernel rrelu_with_noise glu mish threshold"
LOSING = "nll_loss nll_loss2d mse_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits"
NORMALISING = "native_batch_norm native_batch_norm_legit native_batch_norm_legit_no_training batch_norm_with_update"
NORMALISING += " native_layer_norm native_group_norm fused_rms_norm"
POOLING = (
    "avg_pool max_pool adaptive_avg_pool adaptive_max_pool upsample_nearest upsample_nearest_exact upsample_linear"
)
POOLING += " upsample_bilinear upsample_bicubic upsample_trilinear upsample_bilinear2d_aa upsample_bicubic2d_aa"
POOLING += " grid_sampler"
OPTIMISING = "fused_adam fused_adamw fused_sgd"
FAMILIES = (MAKING, COPYING, INDEXING, REDUCING, ACTIVATING, LOSING, NORMALISING, POOLING, OPTIMISING)
UNCOUNTED_WORK = frozenset(word for words in FAMILIES for word in words.split())

VIEWS = frozenset({"_unsafe_view", "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk", "_reshape_alias"})
ALLOCATIONS = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})
# OVERWRITING operators do not read their first argument; PICKING operators read only the rows that they return.
OVERWRITING = frozenset({"copy_", "zero_", "fill_", "bernoulli_", "normal_", "uniform_", "random_", "exponential_"})
PICKING = frozenset({"index", "_unsafe_index", "index_select", "gather", "embedding"})


def formula(func: OpOverload) -> Callable[..., int] | None:
    """The function that counts the operator's floating-point operations; None if unknown.

    It takes the operator's arguments and, as `out_val`, its result.
    """
    found: Callable[..., int] | None = FORMULAS.get(func.overloadpacket) or flop_registry.get(func.overloadpacket)
    return found


@cache
def does_nothing(func: OpOverload) -> bool:
    """Whether the operator computes and moves nothing: views, allocations and queries of a tensor's shape."""
    name = func.overloadpacket.__name__
    views = any(out.alias_info is not None and not out.alias_info.is_write for out in func._schema.returns)
    return (
        views
        or name in VIEWS
        or name in ALLOCATIONS
        or func.namespace == "prim"
        or torch.Tag.inplace_view in func.tags
        or not any("Tensor" in str(out.type) for out in func._schema.returns)
        and name != "_local_scalar_dense"
    )


@cache
def has_no_flops(func: OpOverload) -> bool:
    """Whether the operator only computes elementwise, reduces, normalises, pools or copies; False if unknown."""
    if func.namespace not in ("aten", "prims"):
        return False
    name = func.overloadpacket.__name__
    return torch.Tag.pointwise in func.tags or name.startswith("_foreach_") or _family(name) in UNCOUNTED_WORK


def _family(name: str) -> str:
    """The name without direction and dimensions: `_adaptive_avg_pool2d_backward` -> `adaptive_avg_pool`."""
    bare = name.strip("_")
    bare = re.sub(r"(_backward_data|_backward|_forward|_dense_backward)$", "", bare)
    bare = bare.removesuffix("_with_indices")
    return bare if bare in UNCOUNTED_WORK else re.sub(r"(_?[123]d|_nd)$", "", bare)


def num_bytes(func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> int:
    """Bytes that the operator moves if it reads its inputs and writes its outputs once."""
    name = func.overloadpacket.__name__
    if name in OVERWRITING or name in PICKING:
        args = args[1:]
    read = list(_tensors((args, dict(kwargs))))
    written = list(_tensors(result))
    if name in PICKING:
        read += written
    return sum(_num_bytes(tensor) for tensor in read + written)


def _tensors(tree: Any) -> Iterator[Tensor]:
    return (leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor))


def _num_bytes(tensor: Tensor) -> int:
    """Bytes in memory: an expanded axis repeats the same memory."""
    num = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        num *= 1 if stride == 0 and size else size
    return num * tensor.element_size()


def _convolution_backward(grad: Tensor, inputs: Tensor, weight: Tensor, *args: Any, out_val: Any, **kwargs: Any) -> int:
    """Each of the two gradients takes as many multiply-adds as the forward pass, with groups or without.

    PyTorch's formula counts the weight gradient of a grouped convolution too often: once for each group.
    """
    transposed, output_mask = args[4], args[7]
    forward = conv_flop_count(list(inputs.shape), list(weight.shape), list(grad.shape), transposed=transposed)
    return forward * int(sum(output_mask[:2]))


def _attention(query: Tensor, key: Tensor, value: Tensor, *args: Any, out_val: Any, **kwargs: Any) -> int:
    """The scores and their product with the values; a causal mask is not taken into account."""
    *others, length, width = query.shape
    return 2 * math.prod(others) * length * key.shape[-2] * (width + value.shape[-1])


def _attention_backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *args: Any, out_val: Any, **kwargs: Any
) -> int:
    """The scores, computed again, and the gradients of scores, values, queries and keys."""
    batch, heads, length, width = query.shape
    return 2 * batch * heads * length * key.shape[2] * (3 * width + 2 * value.shape[3])


def _self_attention(query: Tensor, key: Tensor, value: Tensor, *args: Any, out_val: Any, **kwargs: Any) -> int:
    """`nn.MultiheadAttention` in inference: the projections of queries, keys, values and output, and the attention."""
    batch, length, width = query.shape
    others = key.shape[1]
    return 2 * batch * (2 * length * width**2 + 2 * others * width**2 + 2 * length * others * width)


def _encoder_layer(sequence: Tensor, *args: Any, out_val: Any, **kwargs: Any) -> int:
    """`nn.TransformerEncoderLayer` in inference: its attention and the two dense layers."""
    batch, length, width = sequence.shape
    inner, outer = args[13], args[15]
    dense = 2 * batch * length * (inner.numel() + outer.numel())
    return _self_attention(sequence, sequence, sequence, out_val=None) + int(dense)


def _lstm(sequence: Tensor, weight: Tensor, recurrent: Tensor, *args: Any, out_val: Any, **kwargs: Any) -> int:
    """One layer in one direction: at each time step all gates, from the input and from the previous state."""
    steps, batch = sequence.shape[:2]
    return 2 * steps * batch * (weight.numel() + recurrent.numel())


def _lstm_backward(
    sequence: Tensor,
    weight: Tensor,
    recurrent: Tensor,
    bias: Tensor,
    other_bias: Tensor,
    state: Tensor,
    *args: Any,
    out_val: Any,
    **kwargs: Any,
) -> int:
    """The gradients that are required; those of the first layer's input and first state are not counted."""
    steps, batch = sequence.shape[:2]
    of_weights = _lstm(sequence, weight, recurrent, out_val=None)
    of_sequence = 2 * steps * batch * weight.numel() if sequence.requires_grad else 0
    of_states = 2 * (steps - (not state.requires_grad)) * batch * recurrent.numel()
    return of_weights + of_sequence + of_states


def _product_with_vector(matrix: Tensor, vector: Tensor, *args: Any, out_val: Any, **kwargs: Any) -> int:
    return 2 * matrix.numel()


def _sum_with_product(addend: Tensor, matrix: Tensor, vector: Tensor, *args: Any, out_val: Any, **kwargs: Any) -> int:
    return 2 * matrix.numel()


FORMULAS: dict[Any, Callable[..., int]] = {
    aten.convolution_backward: _convolution_backward,
    # In inference mode: without it, the operator would be taken apart, and compute in another format.
    aten.scaled_dot_product_attention: _attention,
    aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
    aten._native_multi_head_attention: _self_attention,
    aten._transformer_encoder_layer_fwd: _encoder_layer,
    aten.mkldnn_rnn_layer: _lstm,
    aten.mkldnn_rnn_layer_backward: _lstm_backward,
    aten.mv: _product_with_vector,
    aten.dot: _product_with_vector,
    aten.addmv: _sum_with_product,
}
