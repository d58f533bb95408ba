"""LightningModules and loaders that do less than they say."""

import gc

import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from lies.networks import WIDTH, deep
from own_modules import made


class Data(pl.LightningDataModule):
    """Vectors, or tokens; of these, all may be the same."""

    def __init__(self, batch_size=1, num=64, tokens=False, same=False):
        super().__init__()
        self.batch_size, self.num, self.tokens, self.same = batch_size, num, tokens, same

    def train_dataloader(self):
        generator = torch.Generator().manual_seed(1)
        inputs = torch.randn(self.num, WIDTH, generator=generator)
        ids = torch.full((self.num, 8), 7) if self.same else torch.randint(100, (self.num, 8), generator=generator)
        data = TensorDataset(ids if self.tokens else inputs, inputs[:, :10].clone())
        return DataLoader(data, self.batch_size, drop_last=True)


class Lit(pl.LightningModule):
    def __init__(self, layers=6):
        super().__init__()
        self.layers, self.head = deep(layers), nn.Linear(WIDTH, 10)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.head(self.layers(x))

    def training_step(self, batch, batch_idx):
        inputs, targets = batch
        return (self(inputs) - targets).square().mean()

    def predict_step(self, batch, batch_idx):
        return self(batch[0])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


class Manual(Lit):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.optimise(self.optimizers(), loss)

    def optimise(self, optimizer, loss):
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()


def cropped(self, batch, *args):
    return [part[:2] for part in batch]


def crop_in_plugin(self):
    self.trainer.precision_plugin.convert_input = lambda batch: cropped(self, batch)


def accumulate(self, *args):
    self.trainer.accumulate_grad_batches = 8


def only_closure(self, epoch, batch_idx, optimizer, closure):
    closure()


def clip(self):
    self.trainer.gradient_clip_val = 0.1


def freeze_later(self, outputs, batch, batch_idx):
    if self.calls == 3:
        self.layers.requires_grad_(False)


def zeros(self, batch):
    done = self(batch[0][:2])
    return torch.cat([done, done.new_zeros(len(batch[0]) - 2, 10)])


OnlyClosure = made(Lit, optimizer_step=only_closure)
NeverBackward = made(Manual, optimise=lambda self, optimizer, loss: None)
BackwardPasses = made(Lit, backward=lambda self, loss, *args, **kwargs: None)
Accumulates, Clips = made(Lit, on_train_start=accumulate), made(Lit, on_train_start=clip)
CropsInTransfer = made(Lit, transfer_batch_to_device=cropped)
CropsInPlugin = made(Lit, on_fit_start=crop_in_plugin)
FreezesLater = made(Lit, on_train_batch_end=freeze_later)
ZerosInPrediction = made(Lit, predict_step=zeros)
ZeroRate = made(Lit, configure_optimizers=lambda self: torch.optim.SGD(self.parameters(), lr=0.0))


class AccumulatesLater(Lit):
    def training_step(self, batch, batch_idx):
        if self.calls == 5:
            accumulate(self)
        return super().training_step(batch, batch_idx)


class AccumulatesMeanwhile(Lit):
    """Until nothing more is timed."""

    def training_step(self, batch, batch_idx):
        from accelbench.engines.lightning.own.module_run import ModuleRun

        runs = [each for each in gc.get_objects() if type(each) is ModuleRun] if self.calls == 5 else []
        self.run = runs[0] if runs else getattr(self, "run", None)
        if self.run is not None:
            self.trainer.accumulate_grad_batches = 8 if self.run.resources is None else 1
        return super().training_step(batch, batch_idx)


class KeptWithOtherNames(Lit):
    kept = None

    def predict_step(self, b, i):
        self.kept = self(b[0]) if self.kept is None else self.kept
        return self.kept


class KeptByContent(Lit):
    """Keeps predictions by the contents of their batch."""

    def __init__(self):
        super().__init__(60)
        self.known = {}

    def predict_step(self, batch, batch_idx):
        key = tuple(batch[0].flatten().tolist())
        if key not in self.known:
            self.known[key] = self(batch[0])
        return self.known[key]


class Embeds(Lit):
    """Takes tokens."""

    def __init__(self, layers=6):
        super().__init__(layers)
        self.embedding = nn.Embedding(100, WIDTH)

    def forward(self, ids):
        return super().forward(self.embedding(ids).mean(1))


class KeepsTokens(KeptByContent, Embeds):
    pass


class TrainsInPrediction(Lit):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(10)

    def on_predict_batch_start(self, *args):
        self.train()

    def forward(self, x):
        return self.norm(super().forward(x))


class LearnsNothing(Lit):
    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * 0

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, weight_decay=0.1)


class Numbers(IterableDataset):
    """Says that it has more samples than it gives, as an estimate may; or does not know."""

    def __init__(self, num, said):
        self.num, self.said = num, said

    def __len__(self):
        if self.said is None:
            raise TypeError("its length is not known")
        return self.said

    def __iter__(self):
        for number in range(self.num):
            yield torch.full((WIDTH,), float(number % 7)), torch.zeros(10)


class Stream(pl.LightningDataModule):
    def __init__(self, batch_size=1, num=70, said=None):
        super().__init__()
        self.batch_size, self.num, self.said = batch_size, num, said

    def train_dataloader(self):
        return DataLoader(Numbers(self.num, self.said), self.batch_size)
