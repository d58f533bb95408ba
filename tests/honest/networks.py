"""Programs that plain PyTorch runs: networks, and the batches, losses and optimisers that go with them.

Each is small, and does one thing that a benchmark may take for a fault, or fail on. Run a new one in a bare loop first.
"""

import math
import time
from collections import deque
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._pytree import tree_leaves

WIDTH, CLASSES = 32, 10


def drawn(*shape, **kind):
    return lambda batch_size: torch.randn(batch_size, *shape, **kind)


vectors, sequences, images = drawn(WIDTH), drawn(8, WIDTH), drawn(3, 16, 16)
signals = drawn(WIDTH, dtype=torch.complex64)


def labelled(batch_size):
    return {"x": vectors(batch_size), "labels": torch.randint(CLASSES, (batch_size,))}


def nested_mapping(batch_size):
    inputs = {"x": vectors(batch_size), "weight": torch.rand(batch_size, 1)}
    return {"inputs": inputs, "labels": torch.randint(CLASSES, (batch_size,))}


def coo(batch_size):
    dense = torch.randn(batch_size, 200)
    return (dense * (torch.rand_like(dense) < 0.05)).to_sparse()


def tokens_in_budget(batch_size, budget=64):
    """As many sequences as fit into a budget of tokens, one after another."""
    lengths = torch.randint(4, 12, (batch_size,))
    lengths = lengths[lengths.cumsum(0) <= budget]
    return {"tokens": torch.randint(100, (int(lengths.sum()),)), "lengths": lengths}


def energy(output, batch):
    parts = [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor)]
    return sum(part.abs().square().mean() for part in parts if part.is_floating_point() or part.is_complex())


# Batches, losses, counts, an optimiser, and modules that are no classes of the user.
FUNCTIONS = {
    "same_vectors": lambda size: torch.randn(size, WIDTH, generator=torch.Generator().manual_seed(5)),
    "ids": lambda size: torch.randint(100, (size, 12)),
    "tuple_with_none": lambda size: (sequences(size), None),
    "nested": lambda size: torch.nested.nested_tensor([torch.randn(3 + i % 5, WIDTH) for i in range(size)]),
    "bags": lambda size: {"offsets": torch.arange(0, 5 * size, 5), "words": torch.randint(100, (5 * size,))},
    "num_sequences": lambda batch: len(batch["lengths"]),
    "classify": lambda output, batch: functional.cross_entropy(output, batch["labels"]),
    "pops": lambda output, batch: functional.cross_entropy(output, batch.pop("labels")),
    # Is 0 once all samples are on the right side, with a margin.
    "separates": lambda output, batch: functional.multi_margin_loss(output, batch["labels"], margin=0.01),
    "lbfgs": partial(torch.optim.LBFGS, max_iter=4),
    "scripted": lambda: torch.jit.script(Plain()),
    "frozen": lambda: torch.jit.freeze(torch.jit.script(Plain().eval())),
    "compiled": lambda: torch.compile(Plain(), backend="aot_eager"),
}
globals().update(FUNCTIONS)


def having(base, forward=None, then=lambda network: None, **parts):
    """A class that differs from `base` in its forward, has what these functions make, or is changed by `then`."""

    def __init__(self):
        base.__init__(self)
        for name, make in parts.items():
            setattr(self, name, make())
        then(self)

    return type("Made", (base,), {"__init__": __init__, "__module__": __name__, "forward": forward or base.forward})


class Plain(nn.Module):  # a perceptron, from which those below differ in one place
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(WIDTH, 64), nn.Tanh(), nn.Linear(64, WIDTH), nn.Tanh())
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.head(self.body(x))


plain = Plain.forward


class RotaryTable(nn.Module):  # attention whose positions are turns by complex numbers in a buffer
    def __init__(self):
        super().__init__()
        speeds = 100.0 ** -torch.linspace(0, 1, WIDTH // 2)
        turns = torch.exp(1j * torch.outer(torch.arange(8.0), speeds))
        self.register_buffer("turns", turns.to(torch.complex64), persistent=False)
        self.project, self.head = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, CLASSES)

    def turned(self, x):
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
        assert self.turns.is_complex()
        return torch.view_as_real(pairs * self.turns).flatten(-2).to(x.dtype)

    def forward(self, x):
        query, key, value = self.project(x).chunk(3, -1)
        mixed = functional.scaled_dot_product_attention(self.turned(query), self.turned(key), value)
        return self.head(mixed.mean(1))


class TurnsAnew(RotaryTable):  # makes its turns in each step, in PyTorch's default format
    def turned(self, x):
        speeds = 100.0 ** (-torch.arange(0, WIDTH, 2) / WIDTH)
        angles = torch.outer(torch.arange(x.shape[1]) / 1, speeds)
        self.turns = torch.polar(torch.ones_like(angles), angles)
        return super().turned(x)


class ComplexLayers(nn.Module):  # all complex: inputs, weights and output
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH, dtype=torch.complex64)
        self.second = nn.Linear(WIDTH, CLASSES, dtype=torch.complex64)

    def forward(self, z):
        z = self.first(z)
        return self.second(torch.polar(z.abs().tanh(), z.angle()))


class Tied(nn.Module):  # one weight has two names
    def __init__(self):
        super().__init__()
        self.embedding, self.out = nn.Embedding(100, WIDTH), nn.Linear(WIDTH, 100, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, words):
        return self.out(self.embedding(words).tanh())


# Its weights are computed from others: a direction and a length, or with a norm of 1.
Parametrised = having(
    Plain,
    then=lambda self: nn.utils.parametrizations.weight_norm(self.body[0]),
    head=lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(WIDTH, CLASSES)),
)
# Change the batch in place. HidesTokens writes a mark over some tokens, drawn at random.
WhitensInPlace = having(Plain, lambda self, x: plain(self, x.sub_(0.5).div_(2)))
HidesTokens = having(Tied, lambda self, words: Tied.forward(self, words.masked_fill_(torch.rand(words.shape) < 0.2, 0)))
PopsWeight = having(Plain, lambda self, inputs: plain(self, inputs.pop("weight") * inputs["x"]))


class Boxes(having(nn.Module, cells=lambda: nn.Conv2d(3, 5, 4, stride=4))):
    def forward(self, image):  # for each picture a mapping, with as many boxes as were found
        found = []
        for cells in self.cells(image).flatten(2).transpose(1, 2):
            scores = cells[:, 4].sigmoid()
            best = scores.argsort(descending=True)[: 1 + int((scores > 0.5).sum())]
            found.append({"boxes": cells[best, :4], "scores": scores[best]})
        return found


class CellStates(having(nn.Module, recurrent=lambda: nn.LSTM(WIDTH, 8, num_layers=2, bidirectional=True))):
    def forward(self, x):  # states first, and batches second
        output, (hidden, cell) = self.recurrent(x.transpose(0, 1))
        return {"hidden": hidden, "cell": cell, "output": output}


# Nothing is as sure as FindsNone asks for. WholeBatch has one vector for the batch, as networks on sets.
FindsNone = having(Plain, lambda self, x: [row[row > 1e9] for row in plain(self, x)])
WholeBatch = having(Plain, lambda self, x: plain(self, x).mean(0))
Classes = having(Plain, lambda self, x: plain(self, x).argmax(1))  # no floating-point numbers
Masks = having(Plain, lambda self, x, mask=None: plain(self, x if mask is None else x * mask).mean(1))
Hashes = having(  # multiplies whole numbers, which have no precision
    nn.Module,
    lambda self, words: self.head(self.embedding(words @ self.factors % 500).mean(1)),
    factors=lambda: nn.Buffer(torch.randint(1, 10**6, (12, 64))),
    embedding=lambda: nn.Embedding(500, WIDTH),
    head=lambda: nn.Linear(WIDTH, 1),
)


class Pull(Plain):  # the gradient of an energy, during inference
    def pull(self, x):
        (slope,) = torch.autograd.grad(super().forward(x).sum(), x, create_graph=self.training)
        return -slope

    def forward(self, x):
        return self.pull(x.requires_grad_())


class PullOutside(Pull):
    def forward(self, x):
        with torch.inference_mode(False), torch.enable_grad():
            return self.pull(x.clone().requires_grad_())


# The same by torch.func, whose gradients are 0 in inference mode.
PullByFunction = having(Plain, lambda self, x: torch.func.grad(lambda y: plain(self, y).sum())(x))
# Some classes can't be: their scores are -inf.
Forbids = having(
    Plain,
    lambda self, x: plain(self, x).masked_fill(self.forbidden, -math.inf),
    head=lambda: nn.Linear(WIDTH, CLASSES + 5),
    forbidden=lambda: nn.Buffer(torch.arange(CLASSES + 5) >= CLASSES),
)
LateLayers = having(
    nn.Module,
    lambda self, image: self.head(self.filters(image)),
    filters=lambda: nn.Sequential(nn.LazyConv2d(8, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten()),
    head=lambda: nn.LazyLinear(CLASSES),
)
SparseWords = having(
    nn.Module,
    lambda self, words: torch.sparse.mm(words, self.weight),
    weight=lambda: nn.Parameter(torch.randn(200, CLASSES)),
)
SparseRows = having(
    Plain,
    lambda self, x: plain(self, (self.neighbours @ x.T).T),
    neighbours=lambda: (torch.eye(WIDTH) + torch.diag(torch.ones(WIDTH - 1), 1)).to_sparse_csr(),
)
# Nested tensors are its batches, and padded ones its output.
NestedRows = having(Plain, lambda self, rows: torch.nested.to_padded_tensor(plain(self, rows), 0.0))
# Its one weight has sparse gradients.
WordVectors = having(
    nn.Module,
    lambda self, words: self.embedding(words).mean(1),
    embedding=lambda: nn.Embedding(2000, 16, sparse=True),
)


BagsOfWords = having(
    nn.Module,
    lambda self, words, offsets: self.head(self.bags(words, offsets)),
    bags=lambda: nn.EmbeddingBag(100, 16, mode="mean"),
    head=lambda: nn.Linear(16, CLASSES),
)
SparseBags = having(BagsOfWords, bags=lambda: nn.EmbeddingBag(100, 16, mode="mean", sparse=True))


class Packed(having(nn.Module, embedding=lambda: nn.Embedding(100, WIDTH), head=lambda: nn.Linear(WIDTH, CLASSES))):
    def forward(self, tokens, lengths):  # sequences one after another, with their lengths
        rows = self.embedding(tokens).split(lengths.tolist())
        return self.head(torch.stack([row.mean(0) for row in rows]))


def exported():
    rows = torch.export.Dim("rows", min=2)
    return torch.export.export(Plain(), (torch.randn(4, WIDTH),), dynamic_shapes=({0: rows},)).module()


EmptyCodebook = having(  # its codes are zeros until it has been trained
    nn.Module,
    lambda self, x: self.decode(self.codes[(self.encode(x)[:, None] - self.codes).square().sum(-1).argmin(1)]),
    encode=lambda: nn.Linear(WIDTH, 8),
    decode=lambda: nn.Linear(8, WIDTH),
    codes=lambda: nn.Buffer(torch.zeros(16, 8)),
)
ZeroHead = having(
    Plain, then=lambda self: nn.init.zeros_(self.head.weight), head=lambda: nn.Linear(WIDTH, CLASSES, bias=False)
)


class UntilLate(Plain):  # refines its answer for two milliseconds
    def forward(self, x):
        end = time.perf_counter() + 2e-3
        answer = super().forward(x)
        while time.perf_counter() < end:
            answer = 0.9 * answer + 0.1 * super().forward(x + answer.mean())
        return answer


class InBuffer(nn.Module):  # writes the output of its other base into `out`
    def forward(self, x):
        answer = super().forward(x)
        if self.out.shape != answer.shape:
            self.out = torch.empty_like(answer)
        return self.out.copy_(answer)


class OneBuffer(InBuffer, Plain):
    out = torch.empty(0)


class Denoises(Plain):  # draws a time and noise for each sample
    def forward(self, x):
        kept, noise = torch.linspace(0.99, 0.01, 50)[torch.randint(50, (len(x), 1))], torch.randn_like(x)
        return super().forward(kept.sqrt() * x + (1 - kept).sqrt() * noise), noise


class RunningMean(having(Plain, mean=lambda: nn.Buffer(torch.zeros(WIDTH)))):  # of all batches so far
    def forward(self, x):
        self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return super().forward(x - self.mean)


Sleeps = having(RunningMean, then=lambda self: self.register_forward_pre_hook(lambda *_: time.sleep(0.15)))


class GrowingTable(Plain):  # makes its table of positions, a plain attribute, as soon as an input is longer than it
    length = 0

    def forward(self, x):
        if x.shape[1] > self.length:
            self.length = x.shape[1]
            self.table = torch.arange(self.length).sin()
        return super().forward(x + self.table)


class BlendsIn(having(Plain, other=lambda: nn.Linear(WIDTH, CLASSES))):
    num_batches = 0  # over 20,000 of them, a second head comes in little by little, as in networks that grow

    def forward(self, x):
        self.num_batches += 1
        share = min(1.0, self.num_batches / 20_000)
        features = self.body(x)
        return (1 - share) * self.head(features) + share * self.other(features)


class BeginsWhite(Plain):  # sets its first scales by the first batch, as flows do, and trains them
    def __init__(self):
        super().__init__()
        self.scale, self.shift, self.is_set = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH)), False

    def forward(self, x):
        if not self.is_set:
            self.is_set = True
            with torch.no_grad():
                self.scale.copy_(1 / x.std(0))
                self.shift.copy_(-x.mean(0))
        return super().forward((x + self.shift) * self.scale)


class Calibrates(Plain):  # its scale is the largest number of the first batches
    num_batches, largest = 0, 0.0

    def forward(self, x):
        if self.num_batches < 4:
            self.num_batches += 1
            self.largest = max(self.largest, x.abs().max().item())
        return super().forward(x / self.largest)


class WindowMean(having(Plain, last=lambda: deque(maxlen=8))):  # of the last eight batches
    def forward(self, x):
        self.last.append(x.detach().mean(0))
        return super().forward(x - torch.stack([*self.last]).mean(0))


Normed = having(Plain, lambda self, x: self.head(self.norm(self.body(x))), norm=lambda: nn.BatchNorm1d(WIDTH))


class FrozenBody(Normed):  # only its head is trained
    def __init__(self):
        super().__init__()
        self.requires_grad_(False)
        self.head.requires_grad_(True)

    def train(self, mode=True):
        super().train(mode)
        self.norm.eval()
        return self


Layers = having(Plain, layers=lambda: nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(16)))


class Experts(having(Layers, router=lambda: nn.Linear(WIDTH, 16))):
    def forward(self, x):  # each sample goes to one of the layers; some get none
        weight, chosen = self.router(x).softmax(1).max(1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.layers):
            rows = chosen == number
            if rows.any():
                out[rows] = expert(x[rows]) * weight[rows, None]
        return super().forward(x + out)


class ExitsEarly(Layers):
    def forward(self, x):
        features = self.body(x)
        if x[0, 0] > 0:
            for layer in self.layers:
                features = layer(features).tanh()
        return self.head(features)


class Doubles(Plain):  # its constructor makes fp64 the default, as scripts of scientists do
    def __init__(self):
        torch.set_default_dtype(torch.float64)
        super().__init__()
