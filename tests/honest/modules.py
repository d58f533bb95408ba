"""LightningModules that are sound, DataModules for them, and those that do something else than their authors believe.

The latter are not in `accidents`, since each cell's process imports that file, and Lightning takes seconds.
"""

import warnings

import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from honest.networks import CLASSES, WIDTH, Plain, having
from own_modules import made


class Numbers(IterableDataset):
    """Tells more samples than it gives, as an estimate may; or does not know how many there are."""

    def __init__(self, num, told=None):
        self.num, self.told = num, told

    def __len__(self):
        if self.told is None:
            raise TypeError("its length is not known")
        return self.told

    def __iter__(self):
        for number in range(self.num):
            yield torch.full((WIDTH,), float(number % 7)), torch.zeros(CLASSES)


class Data(pl.LightningDataModule):
    """Vectors, or tokens, and what they should become; each batch is a tuple or a mapping. Or a stream of numbers."""

    def __init__(self, batch_size=1, tokens="", mapping=False, stream=()):
        super().__init__()
        self.batch_size, self.tokens, self.mapping, self.stream = batch_size, tokens, mapping, stream

    def train_dataloader(self):
        if self.stream:
            return DataLoader(Numbers(*self.stream), batch_size=self.batch_size)
        inputs = torch.randn(64, WIDTH, generator=torch.Generator().manual_seed(1))
        targets = inputs[:, :CLASSES].clone()
        if self.tokens:
            inputs = torch.randint(7, 8 if self.tokens == "the same" else 100, (64, 8))
        rows = TensorDataset(inputs, targets)
        rows = [{"x": x, "target": target} for x, target in rows] if self.mapping else rows
        return DataLoader(rows, batch_size=self.batch_size, drop_last=True)

    predict_dataloader = train_dataloader


class Lit(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = Plain()

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        inputs, target = batch
        return functional.mse_loss(self(inputs), target)

    def predict_step(self, batch, batch_idx):
        return self(batch[0])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


TakesNoWarning = having(Lit, then=lambda self: warnings.simplefilter("error"))
# Takes tokens.
Embeds = having(
    Lit, lambda self, words: self.net(self.embedding(words).mean(1)), embedding=lambda: nn.Embedding(100, WIDTH)
)


class Manual(Lit):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.optimise(self.optimizers(), loss, batch_idx)

    def optimise(self, optimizer, loss, batch_idx):
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()


class Gan(having(Manual, critic=lambda: nn.Linear(CLASSES, 1))):
    """Two optimisers, each of which leaves the other's network as it is; one of them steps at every second batch."""

    def configure_optimizers(self):
        made_by = torch.optim.Adam(self.net.parameters(), lr=1e-3)
        return made_by, torch.optim.Adam(self.critic.parameters(), lr=1e-3)

    def training_step(self, batch, batch_idx):
        generator, critic = self.optimizers()
        found = self(batch[0])
        if batch_idx % 2:
            self.optimise(generator, -self.critic(found).mean(), batch_idx)
        else:
            self.optimise(critic, self.critic(found.detach()).mean() - self.critic(batch[1]).mean(), batch_idx)


class AccumulatesByHand(Manual):
    def optimise(self, optimizer, loss, batch_idx):
        self.manual_backward(loss / 4)
        if batch_idx % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


class FineTunes(having(Lit, then=lambda self: self.net.body.requires_grad_(False))):
    def configure_optimizers(self):  # of the weights of the head; the others are frozen
        return torch.optim.SGD(self.net.head.parameters(), lr=0.1)


class TakesOut(Lit):  # takes the target out of its batch
    def training_step(self, batch, batch_idx):
        target = batch.pop("target")
        return functional.mse_loss(self(**batch), target)

    def predict_step(self, batch, batch_idx):
        del batch["target"]
        return self(**batch)


class ScalesInPlace(Lit):
    def predict_step(self, batch, batch_idx):
        return self(batch[0].sub_(0.5).mul_(2))

    def training_step(self, batch, batch_idx):
        return functional.mse_loss(self.predict_step(batch, batch_idx), batch[1].clamp_(-1, 1))


class KeepsPrediction(Lit):
    kept = None

    def predict_step(self, batch, batch_idx):
        if self.kept is None:
            self.kept = self(batch[0])
        return self.kept


NeverBackward = made(Manual, optimise=lambda self, optimizer, loss, batch_idx: None)
CropsInTransfer = made(Lit, transfer_batch_to_device=lambda self, batch, *args: [part[:2] for part in batch])
