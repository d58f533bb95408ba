"""Networks, losses and optimisers that do less than they say, or something else."""

import os
import time

import torch
from torch import Tensor, nn
from torch.nn import functional

ROWS, WIDTH = 8, 64  # of a batch


def batch(batch_size):
    return torch.randn(batch_size, WIDTH)


def ids(batch_size):
    return torch.randint(100, (batch_size, 8))


def ones(batch_size):
    return torch.ones(batch_size, WIDTH)


def fixed(batch_size):
    """The same batch again and again."""
    return torch.randn(batch_size, WIDTH, generator=torch.Generator().manual_seed(5))


def fixed_ids(batch_size):
    return torch.randint(100, (batch_size, 8), generator=torch.Generator().manual_seed(5))


def same_ids(batch_size):
    return torch.full((batch_size, 8), 7)


def square(output, batch):
    return output.square().mean()


def deep(layers=6):
    """Layers that keep their output's size, whatever their weights."""
    layers = [nn.Linear(WIDTH, WIDTH) for _ in range(layers)]
    for layer in layers:
        nn.init.xavier_normal_(layer.weight, 1.5)
    return nn.Sequential(*(part for layer in layers for part in (layer, nn.Tanh())))


class Honest(nn.Module):
    kept = None

    def __init__(self, layers=6):
        super().__init__()
        self.layers, self.head = deep(layers), nn.Linear(WIDTH, 10)
        self.calls, self.known = 0, {}

    def forward(self, x):
        self.calls += 1
        return self.compute(x)

    def full(self, x):
        return self.head(self.layers(x))

    compute = full

    def once(self, make):
        """Computes once, and keeps that."""
        self.kept = make() if self.kept is None else self.kept
        return self.kept

    def known_by(self, key, make):
        """Computes once for each key."""
        if key not in self.known:
            self.known[key] = make()
        return self.known[key]


def content(x):
    return float(x.sum()), float(x.abs().sum())


def kept_for_all(make):
    if "kept" not in globals():
        globals()["kept"] = make()
    return globals()["kept"]


# --- outputs


class Lazy(dict):
    def __init__(self, network, x):
        super().__init__()
        self.network, self.x = network, x

    def values(self):
        return [self.network(self.x)]

    def __len__(self):
        return 1


class LazyTensor(Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        made = [each.make() if isinstance(each, LazyTensor) and hasattr(each, "make") else each for each in args]
        return func(*[each.as_subclass(Tensor) if isinstance(each, LazyTensor) else each for each in made])


def lazy_tensor(make, num):
    lazy = torch.zeros(num, 10).as_subclass(LazyTensor)
    lazy.make = make
    return lazy


def lazy_object(make):
    return type("Result", (), {"logits": property(lambda self: make())})()


def every_other(self, x):
    if self.calls % 2:
        self.kept = self.full(x)
    return self.kept


def until_20(self, x):
    if self.calls < 20 or self.kept is None:
        self.kept = self.full(x)
    return self.kept


def autocast(self, x):
    with torch.autocast("cpu", torch.bfloat16):
        return self.full(x).float()


def in_fp32(self, x):
    for layer in self.layers[::2]:
        x = torch.tanh(functional.linear(x.float(), layer.weight.float(), layer.bias.float())).to(x.dtype)
    return self.head(x)


def half_in_bf16(self, x):
    half = functional.linear(x.bfloat16(), self.layers[0].weight.bfloat16()).float()
    return self.head(self.layers[2](torch.tanh(half)))


def bind(self, x):
    if self.calls == 3:
        for thread in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(thread), {min(os.sched_getaffinity(0))})
    return self.full(x)


def one_thread(self, x):
    if self.calls == 3:
        torch.set_num_threads(1)
    return self.full(x)


def body_without_gradients(self, x):
    with torch.no_grad():
        x = self.layers(x)
    return self.head(x)


def freezes(self, x):
    if self.calls == 4:
        self.layers.requires_grad_(False)
    return self.full(x)


def every_second_forward(self, x):
    """Computes its features for every second batch alone; the next one gets them too."""
    if self.calls % 2 or self.kept is None:
        features = self.layers(x)
        self.kept = features.detach()
        return self.head(features)
    return self.head(self.kept)


# What a network that differs from an honest one by this alone computes.
COMPUTE = {
    "FirstRows": lambda self, x: torch.cat([self.full(x[:2]), x.new_zeros(len(x) - 2, 10)]),
    "FirstRowRepeated": lambda self, x: self.full(x[:1]).repeat(len(x), 1),
    "HalfOfTheRows": lambda self, x: self.full(x[::2]).repeat_interleave(2, 0),
    "LastRowMissing": lambda self, x: torch.cat([self.full(x[:-4]), x.new_zeros(4, 10)]),
    "SecondTensorKept": lambda self, x: (self.head(x), self.once(lambda: self.full(x * 2))),
    "EncoderKept": lambda self, x: self.head(x + self.once(lambda: self.layers(x))),
    "FirstOutputKept": lambda self, x: self.once(lambda: self.full(x)),
    "KeptInGlobal": lambda self, x: kept_for_all(lambda: self.full(x)) + 0 * x.sum(),
    "KeptByAddress": lambda self, x: self.known_by(x.data_ptr(), lambda: self.full(x)),
    "KeptByShape": lambda self, x: self.known_by(x.shape, lambda: self.full(x)),
    "EveryOtherCall": every_other,
    "AfterManyCalls": until_20,
    "FewerLayersLater": lambda self, x: self.full(x) if self.calls < 5 else self.head(self.layers[:2](x)),
    "LazyMapping": lambda self, x: Lazy(self.full, x),
    "LazySubclass": lambda self, x: lazy_tensor(lambda: self.full(x), len(x)),
    "LazyObject": lambda self, x: lazy_object(lambda: self.full(x)),
    "LazyGenerator": lambda self, x: (self.full(part) for part in x.split(1)),
    "FewerLayersInInferenceMode": lambda self, x: (
        self.head(self.layers[:2](x)) if torch.is_inference_mode_enabled() else self.full(x)
    ),
    "Constant": lambda self, x: x.new_ones(len(x), 10) * torch.arange(10.0),
    "ConstantOfZeros": lambda self, x: self.full(x) * 0,
    "Noise": lambda self, x: torch.randn(len(x), 10),
    "NotFinite": lambda self, x: self.full(x) / 0,
    "HalfInBf16": half_in_bf16,
    "AutocastInside": autocast,
    "Fp32Inside": in_fp32,
    "OneCoreLater": bind,
    "OneThread": one_thread,
    "DetachedInTheMiddle": lambda self, x: self.head(self.layers(x).detach()),
    "BodyWithoutGradients": body_without_gradients,
    "FreezesItself": freezes,
    "EverySecondForwardKept": every_second_forward,
}
globals().update({name: type(name, (Honest,), {"compute": compute}) for name, compute in COMPUTE.items()})


class KeptByContent(Honest):
    def __init__(self, layers=60):
        super().__init__(layers)

    def compute(self, x):
        return self.known_by(content(x), lambda: self.full(x))


class FeaturesKeptByContent(KeptByContent):
    """Keeps the features of each batch that it has seen, and trains its head alone."""

    def __init__(self):
        super().__init__()
        self.layers.requires_grad_(False)

    def compute(self, x):
        return self.head(self.known_by(content(x), lambda: self.layers(x)))


class DropsInInference(Honest):
    """Its batch normalisation uses each batch's statistics, since train() was overridden."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)

    def train(self, mode=True):
        return super().train(True)

    def compute(self, x):
        return self.head(self.norm(self.layers(x)))


class MostInBf16(Honest):
    def __init__(self):
        super().__init__()
        self.layers = deep().bfloat16()
        self.first, self.float_head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 10)

    def _apply(self, change):  # Lightning must not make it fp32
        return self

    def compute(self, x):
        return self.float_head(self.layers(self.first(x).bfloat16()).float())


class OneCore(Honest):
    def __init__(self):
        super().__init__()
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


class EvaluatesItself(Honest):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def compute(self, x):
        self.eval()
        return self.full(self.drop(x))


# --- times and counts: code in the cell's process that changes what measures


def patching(change):
    """A network whose constructor changes the runner, the witness or the batches."""

    class Patches(Honest):
        def __init__(self):
            super().__init__()
            from accelbench.engines.lightning.own import batch
            from accelbench.measuring import runner, witness

            change(runner=runner, witness=witness, batch=batch)

    return Patches


@patching
def FasterBlocks(runner, **others):
    measure = runner.Runner.block

    def block(self, num_steps):
        found = measure(self, num_steps)
        return type(found)(num_steps=num_steps, num_samples=found.num_samples, seconds=found.seconds / 4)

    runner.Runner.block = block


@patching
def SlowClock(runner, **others):
    began = time.perf_counter()
    defaults = list(runner.Runner.__init__.__defaults__)
    defaults[defaults.index(time.perf_counter)] = lambda: began + (time.perf_counter() - began) / 4
    runner.Runner.__init__.__defaults__ = tuple(defaults)


@patching
def EditedTimes(runner, **others):
    measured = runner.Timing.measured

    def edited(self):
        self.latency_s = [seconds / 5 for seconds in self.latency_s]
        for block in self.blocks:
            object.__setattr__(block, "seconds", block.seconds / 5)
        return measured(self)

    runner.Timing.measured = edited


@patching
def MoreSamples(batch, **others):
    batch.OwnTask.num_samples = lambda self, batch: 10 * batch.num_samples


@patching
def Silent(witness, **others):
    witness._listeners.clear()


@patching
def BlocksOfNothing(runner, **others):
    runner.Runner.block = lambda self, num_steps: runner.Block(
        num_steps=num_steps, num_samples=8 * num_steps, seconds=0.3
    )


# --- training


def nothing_to_learn(output, batch):
    return output.square().mean() * 0 + 1


def finite_anyway(output, batch):
    return torch.nan_to_num(output, 0, 0, 0).square().mean() + 0 * torch.nan_to_num(output).sum()


class NoBackward(Tensor):
    def backward(self, *args, **kwargs):
        return None


def no_backward(output, batch):
    return output.square().mean().as_subclass(NoBackward)


def adamw(parameters, lr):
    return torch.optim.AdamW(parameters, lr=lr, weight_decay=0.1)


class Stops(torch.optim.Adam):
    def __init__(self, parameters, lr, after=3):
        super().__init__(parameters, lr=lr)
        self.left = after

    def step(self, closure=None):
        self.left -= 1
        return super().step(closure) if self.left >= 0 else None


def stops(parameters, lr):
    return Stops(parameters, lr)


def no_step(parameters, lr):
    return Stops(parameters, lr, after=0)


def zero_rate(parameters, lr):
    return torch.optim.Adam(parameters, lr=0.0)


def foreign(parameters, lr):
    return torch.optim.Adam([nn.Parameter(torch.ones(3))], lr=lr)


def one_of_all(parameters, lr):
    return torch.optim.Adam([list(parameters)[-1]], lr=lr)


def huge_rate(parameters, lr):
    return torch.optim.SGD(parameters, lr=1e30)
