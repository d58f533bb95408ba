"""LightningModules of packages that `environments/models.in` names, and data for them."""

import contextlib
import importlib
import tempfile

import numpy as np
import pandas as pd
import pytorch_lightning
import torch
from lightning import pytorch as lightning
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

NUM = 64


class Sized:
    def __init__(self, batch_size):
        super().__init__()
        self.batch_size = batch_size


def pictures():
    from lightly.utils.benchmarking import LinearClassifier

    backbone = nn.Sequential(nn.Flatten(), nn.Linear(48, 16), nn.ReLU())
    return LinearClassifier(backbone, batch_size_per_device=4, feature_dim=16, num_classes=8)


class Pictures(Sized, pytorch_lightning.LightningDataModule):
    def train_dataloader(self):
        samples = TensorDataset(torch.randn(NUM, 3, 4, 4), torch.randint(8, (NUM,)))
        return DataLoader(samples, self.batch_size, drop_last=True)


def table_of_series():
    from pytorch_forecasting import TimeSeriesDataSet

    numbers = np.random.default_rng(0)
    rows = {"time": np.tile(np.arange(40), 4), "group": np.repeat(list("abcd"), 40), "value": numbers.random(160)}
    lengths = {f"{which}_encoder_length": 12 for which in ("max", "min")}
    lengths |= {f"{which}_prediction_length": 4 for which in ("max", "min")}
    known = {"time_varying_unknown_reals": ["value"], "group_ids": ["group"]}
    return TimeSeriesDataSet(pd.DataFrame(rows), time_idx="time", target="value", **known, **lengths)


def series(name):
    return getattr(importlib.import_module("pytorch_forecasting"), name).from_dataset(table_of_series())


class Series(Sized, lightning.LightningDataModule):
    def train_dataloader(self):
        return table_of_series().to_dataloader(train=True, batch_size=self.batch_size, num_workers=0)


def tabular(name):
    """A model of pytorch-tabular and its data."""
    from pytorch_tabular import TabularModel, models
    from pytorch_tabular.config import DataConfig, OptimizerConfig, TrainerConfig

    numbers = np.random.default_rng(0)
    rows = {"a": numbers.random(NUM), "b": numbers.choice(list("xyz"), NUM), "label": numbers.integers(2, size=NUM)}
    with contextlib.chdir(tempfile.gettempdir()):  # where it leaves a folder
        made = TabularModel(
            data_config=DataConfig(target=["label"], continuous_cols=["a"], categorical_cols=["b"], num_workers=0),
            model_config=getattr(models, f"{name}Config")(task="classification"),
            optimizer_config=OptimizerConfig(),
            trainer_config=TrainerConfig(batch_size=4, checkpoints=None, early_stopping=None, load_best=False),
            verbose=False,
        )
    frame = pd.DataFrame(rows)
    data = made.prepare_dataloader(train=frame, validation=frame)
    return made.prepare_model(data), data


def tables(name):
    return tabular(name)[0]


class Tables(Sized, pytorch_lightning.LightningDataModule):
    def train_dataloader(self):
        _, data = tabular("CategoryEmbeddingModel")
        data.batch_size = self.batch_size
        return data.train_dataloader()
