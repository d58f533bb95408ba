"""Kernels of matrix products and convolutions: the candidates for a device's ceiling of arithmetic."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

Call = Callable[[], object]
Draw = Callable[..., Tensor]  # returns random numbers of a shape

NUMPY = (torch.float32, torch.float64)
SIDES = {"cpu": (256, 512, 1024, 2048), "cuda": (1024, 2048, 4096, 8192, 16384), "xla": (512, 1024, 2048, 4096, 8192)}
# Batch, channels and side of the images that a padded 3x3 convolution takes.
IMAGES = {
    "cpu": ((1, 64, 28), (8, 64, 56), (8, 128, 28), (8, 256, 14)),
    "cuda": ((32, 64, 56), (64, 128, 56), (128, 256, 28), (256, 512, 14), (256, 256, 56)),
    "xla": ((1, 64, 28), (8, 128, 28), (64, 256, 28), (256, 256, 56)),
}
# How oneDNN's int8 kernels end: the output's scale, zero point and type, and no operation after it.
ROUNDED: tuple[Any, ...] = (0.1, 0, torch.uint8, "none", [], "")


@dataclass(frozen=True)
class Kernel:
    """One computation.

    Attributes:
        name: shown to the user.
        flops: operations on numbers of the dtype; a multiply-add is two.
        make: allocates the tensors and returns the call that computes.
    """

    name: str
    flops: int
    make: Callable[[], Call]


def families(dtype: torch.dtype, device: torch.device, *, numpy_too: bool) -> Iterator[Iterator[Kernel]]:
    """The families of kernels that may run on the device; within a family the sizes rise.

    Args:
        dtype: of the tensors.
        device: of the tensors.
        numpy_too: whether NumPy, which uses all cores, is a candidate on the CPU.
    """
    sides = SIDES[device.type]
    origin = "cpu" if device.type == "xla" else device  # XLA would compile the random generator for each shape

    def draw(*shape: int) -> Tensor:
        if dtype == torch.int8:
            return torch.randint(-127, 128, shape, dtype=dtype, device=origin).to(device)
        return torch.randn(shape, device=origin).to(dtype).to(device)

    if dtype == torch.int8:
        yield _products("int8 matmul", _int_matmul, draw, sides)
        if device.type == "cpu":  # other libraries reach twice what the product of unpacked matrices does
            yield _products("oneDNN int8 linear", _int_linear, draw, sides)
            yield _convolutions("int8", partial(_int_convolution, draw), IMAGES[device.type])
        return
    yield _products("matmul", _matmul, draw, sides)
    yield _products("linear", _linear, draw, sides)
    layouts = {"NCHW": torch.contiguous_format, "channels_last": torch.channels_last}
    for word, layout in list(layouts.items())[: 1 if device.type == "xla" else 2]:
        yield _convolutions(word, partial(_convolution, draw, layout), IMAGES[device.type])
    if device.type == "cpu":
        yield _products("oneDNN linear", _onednn, draw, sides)
        if numpy_too and dtype in NUMPY:
            yield _products("numpy", _numpy, draw, sides)


def _products(name: str, make: Callable[[Draw, int], Call], draw: Draw, sides: tuple[int, ...]) -> Iterator[Kernel]:
    for side in sides:
        yield Kernel(f"{name} {side}", 2 * side**3, partial(make, draw, side))


def _matmul(draw: Draw, side: int) -> Call:
    left, right = draw(side, side), draw(side, side)
    return lambda: left @ right


def _int_matmul(draw: Draw, side: int) -> Call:
    """Sums of int8 products in int32."""
    left, right = draw(side, side), draw(side, side)
    return lambda: torch._int_mm(left, right)


def _int_linear(draw: Draw, side: int) -> Call:
    """The product with a packed weight, rounded to 8 bits, as quantised networks compute it."""
    packed = torch.ops.onednn.qlinear_prepack(draw(side, side), [side, side])
    inputs, scales = draw(side, side).view(torch.uint8), _scales(side)
    return lambda: torch.ops.onednn.qlinear_pointwise(inputs, 0.1, 0, packed, *scales, None, *ROUNDED)


def _scales(channels: int) -> tuple[Tensor, Tensor]:
    """A weight's scale and zero point for each channel."""
    return torch.ones(channels), torch.zeros(channels, dtype=torch.int64)


def _linear(draw: Draw, side: int) -> Call:
    inputs, weight = draw(side, side), draw(side, side)
    return lambda: functional.linear(inputs, weight)


def _onednn(draw: Draw, side: int) -> Call:
    """The product of blocked tensors by oneDNN; for plain fp32 tensors torch uses MKL."""
    inputs, weight = draw(side, side).to_mkldnn(), draw(side, side).to_mkldnn()
    return lambda: torch._C._nn.mkldnn_linear(inputs, weight, None)


def _numpy(draw: Draw, side: int) -> Call:
    left, right = draw(side, side).numpy(), draw(side, side).numpy()
    return lambda: left @ right


def _convolutions(
    word: str, make: Callable[[int, int, int], Call], images: tuple[tuple[int, int, int], ...]
) -> Iterator[Kernel]:
    for num, channels, side in images:
        flops = 2 * 9 * num * channels**2 * side**2
        yield Kernel(f"conv3x3 {num}x{channels}x{side}x{side} {word}", flops, partial(make, num, channels, side))


def _convolution(draw: Draw, layout: torch.memory_format, num: int, channels: int, side: int) -> Call:
    inputs = draw(num, channels, side, side).contiguous(memory_format=layout)
    weight = draw(channels, channels, 3, 3).contiguous(memory_format=layout)
    return lambda: functional.conv2d(inputs, weight, padding=1)


def _int_convolution(draw: Draw, num: int, channels: int, side: int) -> Call:
    """The convolution with a packed weight, rounded to 8 bits, as quantised networks compute it."""
    inputs = draw(num, channels, side, side).view(torch.uint8).contiguous(memory_format=torch.channels_last)
    scales, one = _scales(channels), [1, 1]
    placed = (one, one, one, 1)  # stride, padding, dilation, groups
    packed = torch.ops.onednn.qconv_prepack(
        draw(channels, channels, 3, 3), scales[0], 0.1, 0, *placed, [num, channels, side, side]
    )
    return lambda: torch.ops.onednn.qconv2d_pointwise(inputs, 0.1, 0, packed, *scales, None, *placed, *ROUNDED)
