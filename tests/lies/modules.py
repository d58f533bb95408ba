"""LightningModules and loaders that do less than they say."""

import gc

import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from lies.networks import WIDTH, deep


class Data(pl.LightningDataModule):
    def __init__(self, batch_size=1, num=64):
        super().__init__()
        self.batch_size, self.num = batch_size, num

    def train_dataloader(self):
        inputs = torch.randn(self.num, WIDTH, generator=torch.Generator().manual_seed(1))
        return DataLoader(TensorDataset(inputs, inputs[:, :10].clone()), self.batch_size, drop_last=True)


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


class OnlyClosure(Lit):
    def optimizer_step(self, epoch, batch_idx, optimizer, closure):
        closure()


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


class NeverBackward(Manual):
    def optimise(self, optimizer, loss):
        pass


class NeverStep(Manual):
    def optimise(self, optimizer, loss):
        self.manual_backward(loss)


class StepAlone(Manual):
    def optimise(self, optimizer, loss):
        optimizer.step()


class BackwardPasses(Lit):
    def backward(self, loss, *args, **kwargs):
        pass


class Accumulates(Lit):
    def on_train_start(self):
        self.trainer.accumulate_grad_batches = 8


class AccumulatesLater(Lit):
    def training_step(self, batch, batch_idx):
        if self.calls == 5:
            self.trainer.accumulate_grad_batches = 8
        return super().training_step(batch, batch_idx)


class AccumulatesMeanwhile(Lit):
    """Until nothing more is timed."""

    def training_step(self, batch, batch_idx):
        from accelbench.engines.lightning.own.lightning_module.run import ModuleRun

        runs = [each for each in gc.get_objects() if type(each) is ModuleRun] if self.calls == 5 else []
        self.run = runs[0] if runs else getattr(self, "run", None)
        if self.run is not None:
            self.trainer.accumulate_grad_batches = 8 if self.run.resources is None else 1
        return super().training_step(batch, batch_idx)


class Clips(Lit):
    def on_train_start(self):
        self.trainer.gradient_clip_val = 0.1


class CropsInTransfer(Lit):
    def transfer_batch_to_device(self, batch, device, dataloader_idx):
        return [part[:2].to(device) for part in batch]


class CropsBeforeTransfer(Lit):
    def on_before_batch_transfer(self, batch, dataloader_idx):
        return [part[:2] for part in batch]


class CropsAfterTransfer(Lit):
    def on_after_batch_transfer(self, batch, dataloader_idx):
        return [part[:2] for part in batch]


class KeptWithOtherNames(Lit):
    kept = None

    def predict_step(self, b, i):
        self.kept = self(b[0]) if self.kept is None else self.kept
        return self.kept


class ZerosInPrediction(Lit):
    def predict_step(self, batch):
        done = self(batch[0][:2])
        return torch.cat([done, done.new_zeros(len(batch[0]) - 2, 10)])


class KeptByContent(Lit):
    def __init__(self):
        super().__init__(60)
        self.known = {}

    def predict_step(self, batch, batch_idx):
        key = float(batch[0][0, 0])
        if key not in self.known:
            self.known[key] = self(batch[0])
        return self.known[key]


class KeepsTokens(Lit):
    def __init__(self):
        super().__init__(60)
        self.embedding, self.known = nn.Embedding(100, WIDTH), {}

    def predict_step(self, batch, batch_idx):
        key = tuple(batch[0].flatten().tolist())
        if key not in self.known:
            self.known[key] = self(self.embedding(batch[0]).mean(1))
        return self.known[key]


class TrainsInPrediction(Lit):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(10)

    def on_predict_batch_start(self, *args):
        self.train()

    def forward(self, x):
        return self.norm(super().forward(x))


class FreezesLater(Lit):
    def on_train_batch_end(self, outputs, batch, batch_idx):
        if self.calls == 3:
            self.layers.requires_grad_(False)


class Detaches(Lit):
    def forward(self, x):
        return self.head(self.layers(x).detach())


class LearnsNothing(Lit):
    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * 0

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, weight_decay=0.1)


class Evaluates(Lit):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def on_train_batch_start(self, batch, batch_idx):
        self.eval()


class ZeroRate(Lit):
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)


class Numbers(IterableDataset):
    """Says that it has more samples than it gives, as an estimate may."""

    def __init__(self, num, said):
        self.num, self.said = num, said

    def __len__(self):
        return self.said

    def __iter__(self):
        for number in range(self.num):
            yield torch.full((WIDTH,), float(number % 7)), torch.zeros(10)


class Estimated(pl.LightningDataModule):
    def __init__(self, batch_size=1, num=20, said=40):
        super().__init__()
        self.batch_size, self.num, self.said = batch_size, num, said

    def train_dataloader(self):
        return DataLoader(Numbers(self.num, self.said), self.batch_size)


class CountsItself(Lit):
    """Says by its own clock how many samples it trained on."""

    samples: list = []

    def training_step(self, batch, batch_idx):
        self.samples.append(len(batch[0]))
        return super().training_step(batch, batch_idx)
