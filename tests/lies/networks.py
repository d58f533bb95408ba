"""Networks, losses and optimisers that do less than they say, or something else."""

import os
import time

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH = 64


def seeded():
    return torch.Generator().manual_seed(5)


# The batches of a network, of a batch size: of some, each is the same.
BATCHES = {
    "batch": lambda size: torch.randn(size, WIDTH),
    "ones": lambda size: torch.ones(size, WIDTH),
    "fixed": lambda size: torch.randn(size, WIDTH, generator=seeded()),
    "ids": lambda size: torch.randint(100, (size, 8)),
    "fixed_ids": lambda size: torch.randint(100, (size, 8), generator=seeded()),
    "same_ids": lambda size: torch.full((size, 8), 7),
}


class NoBackward(Tensor):
    def backward(self, *args, **kwargs):
        return None


finite = torch.nan_to_num
LOSSES = {
    "square": lambda output, batch: output.square().mean(),
    "nothing_to_learn": lambda output, batch: output.square().mean() * 0 + 1,
    "finite_anyway": lambda output, _: finite(output, 0, 0, 0).square().mean() + 0 * finite(output).sum(),
    "no_backward": lambda output, batch: output.square().mean().as_subclass(NoBackward),
}


class Stops(torch.optim.Adam):
    """Takes some steps, and then none."""

    def __init__(self, parameters, lr, num_steps):
        super().__init__(parameters, lr=lr)
        self.num_left = num_steps

    def step(self, closure=None):
        self.num_left -= 1
        return super().step(closure) if self.num_left >= 0 else None


OPTIMIZERS = {
    "adamw": lambda parameters, lr: torch.optim.AdamW(parameters, lr=lr, weight_decay=0.1),
    "stops": lambda parameters, lr: Stops(parameters, lr, 3),
    "no_step": lambda parameters, lr: Stops(parameters, lr, 0),
    "zero_rate": lambda parameters, lr: torch.optim.Adam(parameters, lr=0.0),
    "foreign": lambda parameters, lr: torch.optim.Adam([nn.Parameter(torch.ones(3))], lr=lr),
    "one_of_all": lambda parameters, lr: torch.optim.Adam([list(parameters)[-1]], lr=lr),
    "huge_rate": lambda parameters, lr: torch.optim.SGD(parameters, lr=1e30),
    "sparse_sgd": lambda parameters, lr: torch.optim.SGD(parameters, lr=0.1),
}
globals().update(BATCHES | LOSSES | OPTIMIZERS)


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

    def once(self, make, again=False):
        """Computes once, or again, and keeps that."""
        self.kept = make() if again or self.kept is None else self.kept
        return self.kept

    def after(self, change, x, calls=3):
        """Changes something at one of its calls."""
        if self.calls == calls:
            change()
        return self.full(x)

    def known_by(self, key, make):
        """Computes once for each key."""
        if key not in self.known:
            self.known[key] = make()
        return self.known[key]


def network(compute):
    """The network that differs from an honest one by what it computes alone."""
    return type(compute.__name__, (Honest,), {"__module__": compute.__module__, "compute": compute})


class Lazy(dict):
    """Computes when its values are read."""

    def __init__(self, make):
        super().__init__()
        self.make = make

    def values(self):
        return [self.make()]

    def __len__(self):
        return 1


class LazyTensor(Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        made = [each.make() if isinstance(each, LazyTensor) and hasattr(each, "make") else each for each in args]
        return func(*[each.as_subclass(Tensor) if isinstance(each, LazyTensor) else each for each in made])


def under(context, make):
    with context:
        return make()


def lazy_tensor(make, num):
    lazy = torch.zeros(num, 10).as_subclass(LazyTensor)
    lazy.make = make
    return lazy


def lazy_object(make):
    return type("Result", (), {"logits": property(lambda self: make())})()


def kept_for_all(make):
    if "kept" not in globals():
        globals()["kept"] = make()
    return globals()["kept"]


COMPUTE = {
    "FirstRows": lambda self, x: torch.cat([self.full(x[:2]), x.new_zeros(len(x) - 2, 10)]),
    "LastRowMissing": lambda self, x: torch.cat([self.full(x[:-4]), x.new_zeros(4, 10)]),
    "SecondTensorKept": lambda self, x: (self.head(x), self.once(lambda: self.full(x * 2))),
    "EncoderKept": lambda self, x: self.head(x + self.once(lambda: self.layers(x))),
    "FirstOutputKept": lambda self, x: self.once(lambda: self.full(x)),
    "KeptInGlobal": lambda self, x: kept_for_all(lambda: self.full(x)) + 0 * x.sum(),
    "KeptByAddress": lambda self, x: self.known_by(x.data_ptr(), lambda: self.full(x)),
    "FewerLayersLater": lambda self, x: self.full(x) if self.calls < 5 else self.head(self.layers[:2](x)),
    "LazyMapping": lambda self, x: Lazy(lambda: self.full(x)),
    "LazySubclass": lambda self, x: lazy_tensor(lambda: self.full(x), len(x)),
    "LazyObject": lambda self, x: lazy_object(lambda: self.full(x)),
    "FewerLayersInInferenceMode": lambda self, x: (
        self.head(self.layers[:2](x)) if torch.is_inference_mode_enabled() else self.full(x)
    ),
    "Constant": lambda self, x: x.new_ones(len(x), 10) * torch.arange(10.0),
    "Noise": lambda self, x: torch.randn(len(x), 10),
    "NotFinite": lambda self, x: self.full(x) / 0,
    "DetachedInTheMiddle": lambda self, x: self.head(self.layers(x).detach()),
    "EveryOtherCall": lambda self, x: self.once(lambda: self.full(x), self.calls % 2),
    "AfterManyCalls": lambda self, x: self.once(lambda: self.full(x), self.calls < 20),
    "AutocastInside": lambda self, x: under(torch.autocast("cpu", torch.bfloat16), lambda: self.full(x).float()),
    "BodyWithoutGradients": lambda self, x: self.head(under(torch.no_grad(), lambda: self.layers(x))),
    "OneThread": lambda self, x: self.after(lambda: torch.set_num_threads(1), x),
    "FreezesItself": lambda self, x: self.after(lambda: self.layers.requires_grad_(False), x, calls=4),
}
globals().update({name: type(name, (Honest,), {"compute": compute}) for name, compute in COMPUTE.items()})


@network
def Fp32Inside(self, x):
    for layer in self.layers[::2]:
        x = torch.tanh(functional.linear(x.float(), layer.weight.float(), layer.bias.float())).to(x.dtype)
    return self.head(x)


@network
def HalfInBf16(self, x):
    half = functional.linear(x.bfloat16(), self.layers[0].weight.bfloat16()).float()
    return self.head(self.layers[2](torch.tanh(half)))


@network
def OneCoreLater(self, x):
    if self.calls == 3:
        for thread in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(thread), {min(os.sched_getaffinity(0))})
    return self.full(x)


@network
def EverySecondForwardKept(self, x):
    """Computes its features for every second batch alone; the next one gets them too."""
    if self.calls % 2 or self.kept is None:
        features = self.layers(x)
        self.kept = features.detach()
        return self.head(features)
    return self.head(self.kept)


class KeptByContent(Honest):
    def __init__(self, layers=20):
        super().__init__(layers)

    def compute(self, x):
        return self.known_by(self.content(x), lambda: self.full(x))

    def content(self, x):
        return float(x.sum()), float(x.abs().sum())


class FeaturesKeptByContent(KeptByContent):
    """Keeps the features of each batch that it has seen, and trains its head alone."""

    def __init__(self):
        super().__init__(60)
        self.layers.requires_grad_(False)

    def compute(self, x):
        return self.head(self.known_by(self.content(x), lambda: self.layers(x)))


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


def patching(change):
    """A network whose constructor changes the runner, the witness or the batches."""

    class Patches(Honest):
        def __init__(self):
            super().__init__()
            from accelbench.engines.lightning.own import workload
            from accelbench.measuring import runner, witness

            change(runner=runner, witness=witness, workload=workload)

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
def MoreSamples(workload, **others):
    workload.OwnTask.num_samples = lambda self, batch: 10 * self.num_counted


@patching
def Silent(witness, **others):
    witness._listeners.clear()


@patching
def BlocksOfNothing(runner, **others):
    runner.Runner.block = lambda self, num: runner.Block(num_steps=num, num_samples=8 * num, seconds=0.3)
