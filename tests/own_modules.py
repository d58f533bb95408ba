"""What users bring for Lightning: LightningModules and DataModules."""

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


def samples(num=40):
    generator = torch.Generator().manual_seed(7)
    return TensorDataset(torch.randn(num, 8, generator=generator), torch.randint(3, (num,), generator=generator))


class Data(pl.LightningDataModule):
    def __init__(self, batch_size=1, num=40, drop_last=True):
        super().__init__()
        self.batch_size, self.num, self.drop_last = batch_size, num, drop_last

    def setup(self, stage):
        self.samples = samples(self.num)

    def train_dataloader(self):
        return DataLoader(self.samples, self.batch_size, shuffle=True, drop_last=self.drop_last)


class LateSize(pl.LightningDataModule):
    batch_size = 1

    def setup(self, stage):
        self.samples = samples(20) if stage == "test" else []

    def test_dataloader(self):
        return DataLoader(self.samples, self.batch_size, drop_last=True)


class Lit(pl.LightningModule):
    losses: list = []  # of every instance: tests look at them

    def __init__(self, width=16, smoothing=0.1):
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, 3))

    def forward(self, inputs):
        return self.layers(inputs)

    def training_step(self, batch, batch_idx):
        inputs, labels = batch
        loss = functional.cross_entropy(self(inputs), labels, label_smoothing=self.hparams.smoothing)
        self.log("train_loss", loss, prog_bar=True, on_epoch=True)
        self.logger.experiment.add_scalar("loss", loss, self.global_step)
        self.losses.append(loss.detach().float().item())
        return loss

    def validation_step(self, batch, batch_idx):
        raise AssertionError("no validation runs")

    def val_dataloader(self):
        raise AssertionError("no validation runs")

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.05, weight_decay=0.1)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class Counts(Lit):
    """Notes each step of the optimiser, and how large the gradients are."""

    steps: list = []

    def optimizer_step(self, *args, **kwargs):
        super().optimizer_step(*args, **kwargs)
        norm = torch.cat([each.grad.flatten() for each in self.parameters()]).norm()
        self.steps.append((len(self.losses), norm.item()))


class Manual(Lit):
    """Two optimisers, run by hand, the second one at every other batch; nothing is returned."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        first, second = self.optimizers()
        first.zero_grad()
        second.zero_grad()
        self.manual_backward(functional.cross_entropy(self(batch[0]), batch[1]))
        first.step()
        if batch_idx % 2:
            second.step()

    def configure_optimizers(self):
        halves = (self.layers[0].parameters(), self.layers[3].parameters())
        return [torch.optim.SGD(half, lr=0.1) for half in halves]


class OwnLoader(Lit):
    def __init__(self, batch_size):
        super().__init__()
        self.batch_size = batch_size

    def train_dataloader(self):
        return DataLoader(samples(), self.batch_size)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        num = self.trainer.estimated_stepping_batches
        return [optimizer], [torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=num)]


def made(base, **methods):
    """A module that differs from `base` by these methods alone."""
    return type("Made", (base,), {"__module__": __name__, **methods})


def sets_precision(self, *args):
    torch.set_float32_matmul_precision("medium")


def waiting(self):
    optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "monitor": "val_loss"}}


NoSize = made(pl.LightningDataModule, train_dataloader=lambda self: DataLoader(samples(), 8))
# Its loader has no attribute `batch_size`, and batches for only one epoch.
Unsized = made(pl.LightningDataModule, train_dataloader=lambda self: iter(DataLoader(samples(), 8)))
Several = made(Data, train_dataloader=lambda self: dict.fromkeys("ab", Data.train_dataloader(self)))
# Sets how many batches are accumulated, as a callback of Lightning does.
Schedules = made(Lit, configure_callbacks=lambda self: pl.callbacks.GradientAccumulationScheduler({0: 2}))
Waits = made(Lit, configure_callbacks=lambda self: [EarlyStopping("val_loss")], configure_optimizers=waiting)
Stops = made(Lit, on_train_batch_end=lambda self, *_: setattr(self.trainer, "should_stop", len(self.losses) > 3))
Sets = made(Lit, on_fit_start=sets_precision)  # where Lightning's users do
SetsLater = made(Lit, on_train_batch_start=lambda self, batch, index: sets_precision(self) if index == 2 else None)
Doubles = made(Lit, on_after_batch_transfer=lambda self, batch, index: [torch.cat([part, part]) for part in batch])
# Its weights are others where no Trainer has built it.
LateHead = made(Lit, configure_model=lambda self: setattr(self, "head", nn.Linear(3, 3)))
Predicts = made(Lit, predict_step=lambda self, batch, batch_idx: self(batch[0]).softmax(-1))
TakesIterator = made(Lit, training_step=lambda self, dataloader_iter: Lit.training_step(self, *next(dataloader_iter)))
Pools = made(Lit, predict_step=lambda self, batch, batch_idx: self(batch[0]).mean(0, keepdim=True))


def num_labels(batch):
    return len(batch[1])


def ten_times(batch):
    return 10 * len(batch[0])


class Validates(Lit):
    """Logs as its score how many batches it has trained on."""

    def validation_step(self, batch, batch_idx):
        assert not self.training
        self.log("score", float(len(self.losses)))
        self.log("rest_nan", torch.tensor(float("nan")))

    def val_dataloader(self):
        return DataLoader(samples(16), 8)
