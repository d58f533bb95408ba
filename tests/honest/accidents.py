"""Programs that do something else than their authors believe, by accident; a user should hear of each."""

import numpy as np
import torch
from torch import nn

from honest.networks import CLASSES, WIDTH, InBuffer, Normed, Plain, having, plain, vectors


def deep():
    """Layers that take most of the time of a network."""
    parts = [nn.Linear(WIDTH, 256), nn.Tanh()]
    for _ in range(6):
        parts += [nn.Linear(256, 256), nn.Tanh()]
    parts.append(nn.Linear(256, WIDTH))
    for layer in parts[::2]:  # so that what comes from the input stays as large
        nn.init.xavier_normal_(layer.weight, 1.5)
    return nn.Sequential(*parts)


Deep = having(Plain, body=deep)


def too_few(batch_size):
    return vectors(batch_size // 2)


def overflows(output, batch):
    """Finite in fp32. In fp16, the square of 300 is beyond its range, however much was trained."""
    return output.square().mean() + (300 + 0 * output).square().mean()


def of_another(parameters, lr):
    return torch.optim.Adam(Plain().parameters(), lr=lr)


# Computes in half of what was asked for, to save memory.
HalfInside = having(Deep, lambda self, x: self.head(self.body.bfloat16()(x.bfloat16()).to(x.dtype)))
Quantised = having(Plain, body=lambda: torch.ao.quantization.quantize_dynamic(deep(), {nn.Linear}, torch.qint8))
IgnoresInput = having(Plain, lambda self, x: plain(self, torch.ones_like(x)))
Detaches = having(Plain, lambda self, x: self.head(self.body(x).detach()))
AllFrozen = having(Plain, then=lambda self: self.requires_grad_(False))


class HalfInBuffer(Plain):  # computes its head in bf16, and adds to a tensor that it made in the first step
    total = None

    def forward(self, x):
        self.total = torch.zeros(CLASSES) if self.total is None else self.total
        output = nn.functional.linear(self.body(x).bfloat16(), self.head.weight.bfloat16()).float()
        self.total.add_(output[0])
        return output


class KeepsFeatures(Deep):  # keeps the features of the first batch of each new size in an attribute
    kept = None

    def features(self, x):
        if self.kept is None or self.kept.shape != x.shape:
            self.kept = self.body(x)
        return self.kept

    def forward(self, x):
        return self.head(x + self.features(x))


class KeepsOneSize(KeepsFeatures):  # those of the first batch; other sizes are computed, as beside a captured graph
    def features(self, x):
        is_other = self.kept is not None and self.kept.shape != x.shape
        return self.body(x) if is_other else super().features(x)


class KeepsInBuffer(InBuffer, KeepsFeatures):  # the same, into an output buffer of its own
    def __init__(self):
        super().__init__()
        self.register_buffer("out", torch.empty(0), persistent=False)


class KeepsUnseeded(KeepsFeatures):  # the same, with weights that no seed decides
    def __init__(self):
        super().__init__()
        generator = np.random.default_rng()
        with torch.no_grad():
            for weight in self.parameters():
                weight.copy_(torch.from_numpy(generator.normal(0, 0.1, weight.shape)))


# Numbers of classes are those of the first batch; scores are not.
KeepsClasses = having(KeepsFeatures, lambda self, x: (self.head(x), self.features(x).argsort(1)))


class StaysInTraining(Normed):
    def train(self, mode=True):  # its norm uses the statistics of each batch in inference
        return super().train()


class StaysInEval(having(Plain, drop=lambda: nn.Dropout(0.5))):  # as after a validation between the steps
    def forward(self, x):
        self.eval()
        return self.head(self.drop(self.body(x)))


class NumpysThreads(having(Plain, table=lambda: np.random.default_rng(0).random((1024, 1024), "float32"))):
    def forward(self, x):  # multiplies by NumPy, whose threads nobody has counted
        wide = np.resize(x.numpy(), (1024, 1024))
        mixed = torch.from_numpy((wide @ self.table)[: len(x), :WIDTH].copy())
        return super().forward(x + 0.01 * mixed)
