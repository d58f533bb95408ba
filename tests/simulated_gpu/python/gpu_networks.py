"""Small networks of the user's own, for the simulated GPU."""

import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


def batch(num):
    return torch.randn(num, 8)


class Own(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


class Lit(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers, self.batch_size = Own(), 8

    def train_dataloader(self):
        return DataLoader(TensorDataset(batch(256), torch.randint(4, (256,))), self.batch_size)

    predict_dataloader = train_dataloader

    def training_step(self, batch, index):
        return functional.cross_entropy(self.layers(batch[0]), batch[1])

    def predict_step(self, batch, index):
        return self.layers(batch[0])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)
