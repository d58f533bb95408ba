"""What users bring: networks with other inputs than images, and functions that make their batches and losses."""

import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional


class Tokens(nn.Module):
    def __init__(self, vocab=100, width=16):
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.layer = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids, mask=None):
        return self.head(self.layer(self.embedding(ids), src_key_padding_mask=mask))


def tokens(batch_size, seq_len=8, vocab=100):
    ids = torch.randint(vocab, (batch_size, seq_len))
    return {"ids": ids, "mask": torch.zeros(batch_size, seq_len, dtype=torch.bool), "labels": ids.roll(-1, 1)}


class Compiles(nn.Linear):
    """Compiles a function of its own, and again for each batch, since each has one row more."""

    def __init__(self):
        super().__init__(32, 4)
        self.calls, self.compiled = 0, torch.compile(torch.relu, backend="eager", dynamic=False)

    def forward(self, left, right):
        self.calls += 1
        self.compiled(left.new_zeros(self.calls))
        return super().forward(left)


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(32, 16), nn.Linear(8, 16)

    def forward(self, left, right):
        return {"sum": self.left(left) + self.right(right), "nothing": None}


def two_inputs(batch_size):
    return torch.randn(batch_size, 32), torch.randn(batch_size, 8)


@dataclass(frozen=True)
class Pair:
    left: torch.Tensor
    span: range


class TakesPair(TwoInputs):
    def forward(self, pair, right):
        return super().forward(pair.left[:, pair.span], right)


def pairs(batch_size):
    left, right = two_inputs(batch_size)
    return {"pair": Pair(left, range(32)), "right": right}


COUNTS = []  # what `varying` gives next
# Batches, losses and counts, some of which are none, or of another kind than they should be.
FUNCTIONS = {
    "with_edges": lambda batch_size: (torch.zeros(batch_size, 32), torch.zeros(2, 3)),
    "with_table": lambda batch_size: (torch.zeros(batch_size, 32), torch.zeros(1, 3)),
    "no_tensors": lambda batch_size: {"ids": [1, 2, 3]},
    "detached_loss": lambda output, batch: output["sum"].detach().mean(),
    "none": lambda batch: 0,
    "one_sample": lambda batch: 1,
    "varying": lambda batch: COUNTS.pop(0),
    "num_tokens": lambda batch: batch["ids"].numel(),
    "token_loss": lambda output, batch: functional.cross_entropy(output.flatten(0, 1), batch["labels"].flatten()),
    "sum_of_squares": lambda output, batch: output["sum"].square().mean(),
    "squares": lambda output, batch: output.square().mean().reshape(1),
    "diverging": lambda output, batch: output.mean() / 0.0,
}
globals().update(FUNCTIONS)


CHANGES = {
    "convolutions": lambda: setattr(torch.backends.mkldnn.conv, "fp32_precision", "bf16"),
    "newer": lambda: setattr(torch.backends.mkldnn.matmul, "fp32_precision", "bf16"),
    "device": lambda: torch.set_default_device(None),
    "cudnn": lambda: setattr(torch.backends.cudnn, "allow_tf32", True),
    "threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "dtype": lambda: torch.set_default_dtype(torch.float64),
    "deterministic": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
}


class Sets(nn.Linear):
    """Changes PyTorch's global settings, as a network's file does while it is imported, or in each step."""

    def __init__(self, when="built", what="newer"):
        super().__init__(32, 4)
        self.calls, self.change = (2 if when == "built" else 0), CHANGES[what]
        if when == "built":
            self.change()

    def forward(self, left, right):
        self.calls += 1
        if self.calls == 2:
            self.change()
        return super().forward(left)


class KeepsLargest(TwoInputs):
    """Keeps its largest weight in fp32, but not the others, which have more numbers together."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(600))

    def _apply(self, fn, recurse=True):
        kept = self.table.data
        super()._apply(fn, recurse)
        self.table.data = kept
        return self


def ragged_tokens(batch_size):
    batch = tokens(batch_size, int(torch.randint(2, 9, ())))
    return {"ids": batch["ids"], "mask": batch["mask"]}


def padded(batches):
    """One batch of several, whose ids are as long as the longest; the mask says where there are none."""

    def joined(name, value):
        rows = [row for each in batches for row in each[name]]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=value)

    return {"ids": joined("ids", 0), "mask": joined("mask", True)}


class Raises(TwoInputs):
    """Fails on few requests."""

    def forward(self, left, right):
        if left[0, 0] > 1.5:
            raise ValueError("no luck")
        return super().forward(left, right)


class OnlyFour(TwoInputs):
    def forward(self, left, right):
        return super().forward(left.view(4, 32), right)


class Late(nn.Module):
    """Tells the ten patterns of the tests' digits apart, but answers wrongly until it has trained for `num` steps."""

    def __init__(self, num):
        super().__init__()
        patterns = np.random.default_rng(0).integers(0, 2, (10, 28, 28)).reshape(10, -1)
        self.register_buffer("patterns", torch.from_numpy(2 * patterns - 1).float().T)
        self.size, self.num, self.steps = nn.Parameter(torch.zeros(())), num, 0

    def forward(self, images):
        self.steps += self.training
        answers = images.flatten(1) @ self.patterns.to(images.dtype) * self.size.exp() / 100
        return answers if self.steps >= self.num else -answers


def mean_label(output, batch):
    """A metric of shape (1,) that no training changes, and that takes 50 ms."""
    time.sleep(0.05)
    return batch[1].double().mean().reshape(1)
