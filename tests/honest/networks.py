"""Programs that plain PyTorch runs: networks, and the batches, losses and optimisers that go with them.

Each is small, and does one thing that a benchmark may take for a fault, or fail on. Run a new one in a bare loop first.
"""

import math
import time
from collections import deque

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._pytree import tree_leaves

WIDTH, CLASSES = 32, 10


# Batches.


def vectors(batch_size, width=WIDTH):
    return torch.randn(batch_size, width)


def same_vectors(batch_size):
    return torch.randn(batch_size, WIDTH, generator=torch.Generator().manual_seed(5))


def sequences(batch_size, length=8):
    return torch.randn(batch_size, length, WIDTH)


def images(batch_size):
    return torch.randn(batch_size, 3, 16, 16)


def ids(batch_size, num=100):
    return torch.randint(num, (batch_size, 12))


def signals(batch_size):
    return torch.randn(batch_size, WIDTH, dtype=torch.complex64)


def labelled(batch_size):
    return {"x": vectors(batch_size), "labels": torch.randint(CLASSES, (batch_size,))}


def nested_mapping(batch_size):
    inputs = {"x": vectors(batch_size), "weight": torch.rand(batch_size, 1)}
    return {"inputs": inputs, "labels": torch.randint(CLASSES, (batch_size,))}


def tuple_with_none(batch_size):
    return sequences(batch_size), None


def coo(batch_size):
    dense = torch.randn(batch_size, 200)
    return (dense * (torch.rand_like(dense) < 0.05)).to_sparse()


def nested(batch_size):
    return torch.nested.nested_tensor([torch.randn(3 + index % 5, WIDTH) for index in range(batch_size)])


def bags(batch_size):
    return {"offsets": torch.arange(0, 5 * batch_size, 5), "words": torch.randint(100, (5 * batch_size,))}


def tokens_in_budget(batch_size, budget=64):
    """As many sequences as fit into a budget of tokens, one after another."""
    lengths = torch.randint(4, 12, (batch_size,))
    lengths = lengths[lengths.cumsum(0) <= budget]
    return {"tokens": torch.randint(100, (int(lengths.sum()),)), "lengths": lengths}


def num_sequences(batch):
    return len(batch["lengths"])


# Losses.


def energy(output, batch):
    """The mean square of all numbers in the output."""
    parts = [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor)]
    return sum(part.abs().square().mean() for part in parts if part.is_floating_point() or part.is_complex())


def classify(output, batch):
    return functional.cross_entropy(output, batch["labels"])


def pops(output, batch):
    labels = batch.pop("labels")
    return functional.cross_entropy(output, labels)


def separates(output, batch):
    """Is 0 once all samples are on the right side, with a margin."""
    return functional.multi_margin_loss(output, batch["labels"], margin=0.01)


def denoises(output, batch):
    found, noise = output
    return functional.mse_loss(found, noise)


# Optimisers.


def fast(parameters, lr):
    return torch.optim.SGD(parameters, lr=0.3)


def lbfgs(parameters, lr):
    return torch.optim.LBFGS(parameters, lr=0.1, max_iter=4)


def sparse_adam(parameters, lr):
    return torch.optim.SparseAdam(list(parameters), lr=lr)


def adagrad(parameters, lr):
    return torch.optim.Adagrad(parameters, lr=lr)


# Networks.


class Plain(nn.Module):
    """A perceptron, from which those below differ in one place."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(WIDTH, 64), nn.Tanh(), nn.Linear(64, WIDTH), nn.Tanh())
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.head(self.body(x))


# Complex numbers.


class RotaryTable(nn.Module):
    """Attention whose positions are turns by complex numbers in a buffer."""

    def __init__(self, length=8):
        super().__init__()
        speeds = 100.0 ** -torch.linspace(0, 1, WIDTH // 2)
        turns = torch.exp(1j * torch.outer(torch.arange(float(length)), speeds))
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


class TurnsAnew(RotaryTable):
    """Makes its turns in each step, in PyTorch's default format."""

    def turned(self, x):
        speeds = 100.0 ** (-torch.arange(0, WIDTH, 2) / WIDTH)
        angles = torch.outer(torch.arange(x.shape[1]) / 1, speeds)
        self.turns = torch.polar(torch.ones_like(angles), angles)
        return super().turned(x)


class ComplexLayers(nn.Module):
    """All complex: inputs, weights and output."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH, dtype=torch.complex64)
        self.second = nn.Linear(WIDTH, CLASSES, dtype=torch.complex64)

    def forward(self, z):
        z = self.first(z)
        return self.second(torch.polar(z.abs().tanh(), z.angle()))


# Changes of the batch in place.


class WhitensInPlace(Plain):
    def forward(self, x):
        return super().forward(x.sub_(0.5).div_(2))


class Tied(nn.Module):
    """One weight has two names."""

    def __init__(self):
        super().__init__()
        self.embedding, self.out = nn.Embedding(100, WIDTH), nn.Linear(WIDTH, 100, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, words):
        return self.out(self.embedding(words).tanh())


class Parametrised(Plain):
    """Its weights are computed from others: a direction and a length, or with a norm of 1."""

    def __init__(self):
        super().__init__()
        parametrizations = nn.utils.parametrizations
        self.body[0] = parametrizations.weight_norm(self.body[0])
        self.head = parametrizations.spectral_norm(self.head)


class HidesTokens(Tied):
    """Writes a mark over some tokens, drawn at random."""

    def forward(self, words):
        words.masked_fill_(torch.rand(words.shape) < 0.2, 0)
        return super().forward(words)


class PopsWeight(Plain):
    """Takes an entry out of a mapping that is its argument."""

    def forward(self, inputs):
        weight = inputs.pop("weight")
        return super().forward(inputs["x"] * weight)


# Results that are not one row for each sample, or have dimensions that happen to be as long as the batch.


class Boxes(nn.Module):
    """For each picture a mapping, with as many boxes as were found."""

    def __init__(self):
        super().__init__()
        self.cells = nn.Conv2d(3, 5, 4, stride=4)

    def forward(self, image):
        found = []
        for cells in self.cells(image).flatten(2).transpose(1, 2):
            scores = cells[:, 4].sigmoid()
            best = scores.argsort(descending=True)[: 1 + int((scores > 0.5).sum())]
            found.append({"boxes": cells[best, :4], "scores": scores[best]})
        return found


class FindsNone(Plain):
    """Nothing is as sure as it asks for."""

    def forward(self, x):
        return [row[row > 1e9] for row in super().forward(x)]


class CellStates(nn.Module):
    """States first, and batches second."""

    def __init__(self, layers=2):
        super().__init__()
        self.recurrent = nn.LSTM(WIDTH, 8, num_layers=layers, bidirectional=True)

    def forward(self, x):
        output, (hidden, cell) = self.recurrent(x.transpose(0, 1))
        return {"hidden": hidden, "cell": cell, "output": output}


class WholeBatch(Plain):
    """One vector for the batch: the mean over its samples, as networks on sets have it."""

    def forward(self, x):
        return super().forward(x).mean(0)


class Classes(Plain):
    """Numbers of classes, which are no floating-point numbers."""

    def forward(self, x):
        return super().forward(x).argmax(1)


class Hashes(nn.Module):
    """Multiplies whole numbers, which have no precision."""

    def __init__(self):
        super().__init__()
        self.register_buffer("factors", torch.randint(1, 10**6, (12, 64)))
        self.embedding, self.head = nn.Embedding(500, WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, words):
        return self.head(self.embedding(words @ self.factors % 500).mean(1))


# Gradients during inference.


class Pull(Plain):
    """The gradient of an energy."""

    def pull(self, x):
        (slope,) = torch.autograd.grad(super().forward(x).sum(), x, create_graph=self.training)
        return -slope

    def forward(self, x):
        return self.pull(x.requires_grad_())


class PullOutside(Pull):
    def forward(self, x):
        with torch.inference_mode(False), torch.enable_grad():
            return self.pull(x.clone().requires_grad_())


class PullByFunction(Plain):
    """The same by torch.func, whose gradients are 0 in inference mode."""

    def forward(self, x):
        return torch.func.grad(lambda y: super(PullByFunction, self).forward(y).sum())(x)


# Numbers that are not finite on purpose.


class Forbids(Plain):
    """Some classes can't be: their scores are -inf."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(WIDTH, CLASSES + 5)
        self.register_buffer("forbidden", torch.arange(CLASSES + 5) >= CLASSES)

    def forward(self, x):
        return super().forward(x).masked_fill(self.forbidden, -math.inf)


# Layers that are made late.


class LateLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.filters = nn.Sequential(nn.LazyConv2d(8, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten())
        self.head = nn.LazyLinear(CLASSES)

    def forward(self, image):
        return self.head(self.filters(image))


# Sparse and nested tensors.


class SparseWords(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(200, CLASSES))

    def forward(self, words):
        return torch.sparse.mm(words, self.weight)


class SparseRows(Plain):
    """The same by rows, in an attribute."""

    def __init__(self):
        super().__init__()
        self.neighbours = (torch.eye(WIDTH) + torch.diag(torch.ones(WIDTH - 1), 1)).to_sparse_csr()

    def forward(self, x):
        return super().forward((self.neighbours @ x.T).T)


class NestedRows(Plain):
    """Nested tensors are its batches, and padded ones its output."""

    def forward(self, rows):
        return torch.nested.to_padded_tensor(super().forward(rows), 0.0)


# Sparse gradients.


class WordVectors(nn.Module):
    """Its one weight has sparse gradients."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(2000, 16, sparse=True)

    def forward(self, words):
        return self.embedding(words).mean(1)


# Tensors whose rows are no samples.


class BagsOfWords(nn.Module):
    def __init__(self, sparse=False):
        super().__init__()
        self.bags = nn.EmbeddingBag(100, 16, mode="mean", sparse=sparse)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, words, offsets):
        return self.head(self.bags(words, offsets))


class Packed(nn.Module):
    """Sequences one after another, with their lengths."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(100, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, tokens, lengths):
        rows = self.embedding(tokens).split(lengths.tolist())
        return self.head(torch.stack([row.mean(0) for row in rows]))


class Masks(Plain):
    def forward(self, x, mask=None):
        scores = super().forward(x)
        return scores.mean(1) if mask is None else (scores * mask).mean(1)


# Modules that are no classes of the user.


def scripted():
    return torch.jit.script(Plain())


def frozen():
    return torch.jit.freeze(torch.jit.script(Plain().eval()))


def compiled():
    return torch.compile(Plain(), backend="aot_eager")


def exported():
    rows = torch.export.Dim("rows", min=2)
    return torch.export.export(Plain(), (torch.randn(4, WIDTH),), dynamic_shapes=({0: rows},)).module()


# Outputs that hardly move while weights are random.


class EmptyCodebook(nn.Module):
    """Its codes are zeros until it has been trained."""

    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(WIDTH, 8), nn.Linear(8, WIDTH)
        self.register_buffer("codes", torch.zeros(16, 8))

    def forward(self, x):
        nearest = (self.encode(x)[:, None] - self.codes).square().sum(-1).argmin(1)
        return self.decode(self.codes[nearest])


class ZeroHead(Plain):
    """Its head begins with zeros."""

    def __init__(self):
        super().__init__()
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)


# Time and memory.


class UntilLate(Plain):
    """Refines its answer for two milliseconds."""

    def forward(self, x):
        end = time.perf_counter() + 2e-3
        answer = super().forward(x)
        while time.perf_counter() < end:
            answer = 0.9 * answer + 0.1 * super().forward(x + answer.mean())
        return answer


class OneBuffer(Plain):
    """Writes its output into one buffer."""

    def __init__(self):
        super().__init__()
        self.out = None

    def forward(self, x):
        answer = super().forward(x)
        if self.out is None or self.out.shape != answer.shape:
            self.out = torch.empty_like(answer)
        return self.out.copy_(answer)


# Chance.


class Denoises(Plain):
    """Draws a time and noise for each sample."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("kept", torch.linspace(0.99, 0.01, 50))

    def forward(self, x):
        kept, noise = self.kept[torch.randint(50, (len(x),))][:, None], torch.randn_like(x)
        return super().forward(kept.sqrt() * x + (1 - kept).sqrt() * noise), noise


# State.


class RunningMean(Plain):
    """Subtracts the mean of all batches so far."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x):
        self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return super().forward(x - self.mean)


class Sleeps(RunningMean):
    def forward(self, x):
        time.sleep(0.15)
        return super().forward(x)


class GrowingTable(Plain):
    """Makes its table of positions, a plain attribute, as soon as an input is longer than it."""

    def __init__(self):
        super().__init__()
        self.length, self.table = 0, torch.zeros(1)

    def forward(self, x):
        if x.shape[1] > self.length:
            self.length = x.shape[1]
            self.table = torch.arange(self.length).sin()
        return super().forward(x + self.table)


class BlendsIn(Plain):
    """A second head comes in little by little, over 20,000 batches, as in networks that grow."""

    def __init__(self):
        super().__init__()
        self.other, self.num_batches = nn.Linear(WIDTH, CLASSES), 0

    def forward(self, x):
        self.num_batches += 1
        share = min(1.0, self.num_batches / 20_000)
        features = self.body(x)
        return (1 - share) * self.head(features) + share * self.other(features)


class BeginsWhite(Plain):
    """Sets its first scales by the first batch, as flows do, and trains them."""

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


class Calibrates(Plain):
    """Its scale is the largest number of the first batches."""

    def __init__(self):
        super().__init__()
        self.num_batches, self.largest = 0, 0.0

    def forward(self, x):
        if self.num_batches < 4:
            self.num_batches += 1
            self.largest = max(self.largest, x.abs().max().item())
        return super().forward(x / self.largest)


class WindowMean(Plain):
    """Subtracts the mean of the last eight batches."""

    def __init__(self):
        super().__init__()
        self.last = deque(maxlen=8)

    def forward(self, x):
        self.last.append(x.detach().mean(0))
        return super().forward(x - torch.stack([*self.last]).mean(0))


class FrozenBody(Plain):
    """Only its head is trained; its body stays in evaluation mode."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)
        self.body.requires_grad_(False)
        self.norm.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        self.norm.eval()
        return self

    def forward(self, x):
        return self.head(self.norm(self.body(x)))


# Work that depends on the input.


class Experts(Plain):
    """Each sample goes to one of eight experts; some get none."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, 8)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(8))

    def forward(self, x):
        weight, chosen = self.router(x).softmax(1).max(1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = chosen == number
            if rows.any():
                out[rows] = expert(x[rows]) * weight[rows, None]
        return super().forward(x + out)


class ExitsEarly(Plain):
    """How many layers it computes depends on the first number of a batch."""

    def __init__(self):
        super().__init__()
        self.more = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(16))

    def forward(self, x):
        features = self.body(x)
        if x[0, 0] > 0:
            for layer in self.more:
                features = layer(features).tanh()
        return self.head(features)


# Formats.


class Doubles(Plain):
    """Its constructor makes fp64 the default, as scripts of scientists do."""

    def __init__(self):
        torch.set_default_dtype(torch.float64)
        super().__init__()
