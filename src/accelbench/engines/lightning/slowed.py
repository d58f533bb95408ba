"""Networks whose steps take a known share longer than they would: `accelbench selfcheck` measures them."""

import time

import torch
from torch import Tensor, nn

# A pause between two steps, such as the end of a block, is not slowed down as if it were a step.
LONGEST_STEP = 2.0  # of the time of a forward pass
SHAPES = {"light": (784,), "heavy": (3, 112, 112)}  # of an input


class Slowed(nn.Module):
    """A network on the CPU that waits after each forward pass, so that its steps are slower by a share.

    A step lasts from the end of one to the end of the next. `light` ones take some tenths of a millisecond, `heavy`
    ones some tens. `slowdown` is of its speed, such as .05; 0 for none.
    """

    def __init__(self, size: str, slowdown: float = 0.0) -> None:
        super().__init__()
        light = nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
        self.network = nn.Sequential(*light) if size == "light" else _heavy()
        self._wait = 1 / (1 - slowdown) - 1
        self._ended_s = 0.0

    def forward(self, inputs: Tensor) -> Tensor:
        """The network's output."""
        began_s = time.perf_counter()
        output: Tensor = self.network(inputs)
        if self._wait:
            now_s = time.perf_counter()
            step_s = min(now_s - self._ended_s, LONGEST_STEP * (now_s - began_s))
            until_s = now_s + self._wait * step_s
            while time.perf_counter() < until_s:
                pass
            self._ended_s = time.perf_counter()
        return output


def batch(batch_size: int, size: str) -> Tensor:
    """Random inputs of a network of this size."""
    return torch.randn(batch_size, *SHAPES[size])


def _heavy() -> nn.Module:
    layers: list[nn.Module] = []
    for given, made, stride in ((3, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1)):
        layers += [nn.Conv2d(given, made, 3, stride, padding=1), nn.BatchNorm2d(made), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))
