"""Networks, modules and loaders that are sound, and look like some that are not."""

import time

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from lies.modules import Lit, Manual, made
from lies.networks import WIDTH, Honest, deep, network


def one_hot(output):
    return functional.one_hot(output.argmax(1), output.shape[1]).float()


# What a network that differs from `Honest` by this alone computes.
COMPUTE = {
    "DropsOnPurpose": lambda self, x: self.full(functional.dropout(x, 0.3, training=True)),
    "Checkpointed": lambda self, x: self.head(checkpoint(self.layers, x, use_reentrant=False)),
    # Each sample attends to all others of its batch.
    "AttendsToBatch": lambda self, x: self.full(x + (x @ x.T / WIDTH).softmax(1) @ x),
    # One-hot outputs: many are the same for different inputs; of two classes, with most weights.
    "HardAnswers": lambda self, x: one_hot(self.full(x)),
    "Decides": lambda self, x: one_hot(self.full(x)[:, :2]),
}
globals().update({name: type(name, (Honest,), {"compute": compute}) for name, compute in COMPUTE.items()})


@network
def SkipsLayers(self, x):
    """Leaves layers out at random while it trains."""
    for layer in self.layers[::2]:
        if not self.training or torch.rand(()) < 0.8:
            x = x + torch.tanh(layer(x))
    return self.head(x)


@network
def Fp32Head(self, x):
    """Its head computes in fp32, as those of language models do in bf16."""
    return functional.linear(self.layers(x).float(), self.head.weight.float(), self.head.bias.float())


@network
def Sleeps(self, x):
    """Its steps are slow."""
    time.sleep(0.15)
    return self.full(x)


class WithState(Honest):
    """Normalises by the mean of all batches so far."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH))

    def compute(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return self.full(x - self.mean)


class DropoutLeftOn(Honest):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.2)

    def train(self, mode=True):
        super().train(mode)
        self.drop.train()
        return self

    def compute(self, x):
        return self.full(self.drop(x))


class FrozenBackbone(Honest):
    """The backbone stays in evaluation mode, as when only a head is trained; its buffers have no gradients."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)
        self.layers.requires_grad_(False)
        self.norm.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        self.layers.eval()
        self.norm.eval()
        return self

    def compute(self, x):
        return self.head(self.norm(self.layers(x)))


class TiedWeights(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.body = nn.Embedding(100, WIDTH), deep(2)
        self.out = nn.Linear(WIDTH, 100, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, ids):
        return self.out(self.body(self.embedding(ids)))


class FewRowsChange(nn.Module):
    """A large embedding: a batch changes few of its rows."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(200_000, 16), nn.Linear(16, 10)

    def forward(self, ids):
        return self.head(self.embedding(ids).mean(1))


class Experts(Honest):
    """Each sample goes to one of eight experts: in a batch of eight, some get none."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, 8)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(8))

    def compute(self, x):
        weight, chosen = self.router(x).softmax(1).max(1)
        out = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            rows = chosen == index
            if rows.any():
                out[rows] = expert(x[rows]) * weight[rows, None]
        return self.full(x + out)


class ZeroHead(Honest):
    """A head that begins with zeros, as those of diffusion models do."""

    def __init__(self):
        super().__init__()
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)


class ExitsEarly(Honest):
    """Leaves most layers out for batches whose first number says so."""

    def __init__(self):
        super().__init__(40)

    def compute(self, x):
        return self.head(self.layers[:8](x) if x[0, 0] > 0 else self.layers(x))


class TimeFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 32), nn.Linear(32, 10)

    def forward(self, x):
        out, (state, _) = self.lstm(x.unflatten(1, (8, 8)).transpose(0, 1))
        return self.head(out), state


class Gan(Manual):
    """Two optimisers, each of which leaves the other's network alone; the generator's turn comes every second batch."""

    def __init__(self):
        super().__init__()
        self.critic = nn.Linear(10, 1)

    def configure_optimizers(self):
        mine = [*self.layers.parameters(), *self.head.parameters()]
        return torch.optim.Adam(mine, lr=1e-3), torch.optim.Adam(self.critic.parameters(), lr=1e-3)

    def training_step(self, batch, batch_idx):
        generator, critic = self.optimizers()
        found = self(batch[0])
        if batch_idx % 2:
            self.optimise(generator, -self.critic(found).mean())
        else:
            self.optimise(critic, self.critic(found.detach()).mean() - self.critic(batch[1]).mean())


class AccumulatesByHand(Manual):
    def optimise(self, optimizer, loss):
        self.manual_backward(loss)
        if self.calls % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()


class WarmsUp(Lit):
    """Its learning rate rises from 0."""

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 100))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def crop_pictures(self, batch, dataloader_idx):
    """Takes parts of each picture, and none of the samples away."""
    return batch[0] * (torch.rand_like(batch[0]) > 0.1), batch[1]


Crops = made(Lit, on_after_batch_transfer=crop_pictures)


class Pairs(Lit):
    """A hook joins samples to pairs."""

    def on_after_batch_transfer(self, batch, dataloader_idx):
        return [part.unflatten(0, (-1, 2)) for part in batch]

    def training_step(self, batch, batch_idx):
        return super().training_step([part.flatten(0, 1) for part in batch], batch_idx)
