"""Networks, losses and optimisers that do less than they say, or something else."""

import os

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
    def __init__(self, layers=6):
        super().__init__()
        self.layers, self.head = deep(layers), nn.Linear(WIDTH, 10)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.compute(x)

    def compute(self, x):
        return self.head(self.layers(x))


# --- outputs


class FirstRows(Honest):
    def compute(self, x):
        done = super().compute(x[:2])
        return torch.cat([done, done.new_zeros(len(x) - 2, 10)])


class FirstRowRepeated(Honest):
    def compute(self, x):
        return super().compute(x[:1]).repeat(len(x), 1)


class HalfOfTheRows(Honest):
    def compute(self, x):
        return super().compute(x[::2]).repeat_interleave(2, 0)


class LastRowMissing(Honest):
    def compute(self, x):
        return torch.cat([super().compute(x[:-4]), x.new_zeros(4, 10)])


class SecondTensorKept(Honest):
    kept = None

    def compute(self, x):
        self.kept = super().compute(x * 2) if self.kept is None else self.kept
        return self.head(x), self.kept


class EncoderKept(Honest):
    memory = None

    def compute(self, x):
        self.memory = self.layers(x) if self.memory is None else self.memory
        return self.head(x + self.memory)


class FirstOutputKept(Honest):
    kept = None

    def compute(self, x):
        self.kept = super().compute(x) if self.kept is None else self.kept
        return self.kept


class KeptInGlobal(Honest):
    def compute(self, x):
        if "kept" not in globals():
            globals()["kept"] = super().compute(x)
        return globals()["kept"] + 0 * x.sum()


class KeptByContent(Honest):
    def __init__(self, layers=60):
        super().__init__(layers)
        self.known = {}

    def compute(self, x):
        key = float(x.sum()), float(x.abs().sum())
        if key not in self.known:
            self.known[key] = super().compute(x)
        return self.known[key]


class KeptByAddress(Honest):
    def __init__(self):
        super().__init__()
        self.known = {}

    def compute(self, x):
        if x.data_ptr() not in self.known:
            self.known[x.data_ptr()] = super().compute(x)
        return self.known[x.data_ptr()]


class KeptByShape(Honest):
    def __init__(self):
        super().__init__()
        self.known = {}

    def compute(self, x):
        if x.shape not in self.known:
            self.known[x.shape] = super().compute(x)
        return self.known[x.shape]


class EveryOtherCall(Honest):
    kept = None

    def compute(self, x):
        if self.calls % 2:
            self.kept = super().compute(x)
        return self.kept


class AfterManyCalls(Honest):
    kept = None

    def compute(self, x):
        if self.calls < 20 or self.kept is None:
            self.kept = super().compute(x)
        return self.kept


class FewerLayersLater(Honest):
    def compute(self, x):
        return super().compute(x) if self.calls < 5 else self.head(self.layers[:2](x))


class Lazy(dict):
    def __init__(self, network, x):
        super().__init__()
        self.network, self.x = network, x

    def values(self):
        return [self.network(self.x)]

    def __len__(self):
        return 1


class LazyMapping(Honest):
    def compute(self, x):
        return Lazy(super().compute, x)


class LazyTensor(Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        made = [each.make() if isinstance(each, LazyTensor) and hasattr(each, "make") else each for each in args]
        return func(*[each.as_subclass(Tensor) if isinstance(each, LazyTensor) else each for each in made])


class LazySubclass(Honest):
    def compute(self, x):
        lazy = torch.zeros(len(x), 10).as_subclass(LazyTensor)
        lazy.make = lambda: super(LazySubclass, self).compute(x)
        return lazy


class LazyObject(Honest):
    def compute(self, x):
        network = super().compute

        class Result:
            @property
            def logits(self):
                return network(x)

        return Result()


class LazyGenerator(Honest):
    def compute(self, x):
        return (super(LazyGenerator, self).compute(part) for part in x.split(1))


class FewerLayersInInferenceMode(Honest):
    def compute(self, x):
        return self.head(self.layers[:2](x) if torch.is_inference_mode_enabled() else self.layers(x))


class Constant(Honest):
    def compute(self, x):
        return x.new_ones(len(x), 10) * torch.arange(10.0)


class ConstantOfZeros(Honest):
    def compute(self, x):
        return super().compute(x) * 0


class Noise(Honest):
    def compute(self, x):
        return torch.randn(len(x), 10)


class NotFinite(Honest):
    def compute(self, x):
        return super().compute(x) / 0


class DropsInInference(Honest):
    """Its batch normalisation uses each batch's statistics, since train() was overridden."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)

    def train(self, mode=True):
        return super().train(True)

    def compute(self, x):
        return self.head(self.norm(self.layers(x)))


# --- precision


class MostInBf16(Honest):
    def __init__(self):
        super().__init__()
        self.layers = deep().bfloat16()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.float_head = nn.Linear(WIDTH, 10)

    def _apply(self, change):  # Lightning must not make it fp32
        return self

    def compute(self, x):
        return self.float_head(self.layers(self.first(x).bfloat16()).float())


class HalfInBf16(Honest):
    def compute(self, x):
        half = functional.linear(x.bfloat16(), self.layers[0].weight.bfloat16()).float()
        return self.head(self.layers[2](torch.tanh(half)))


class AutocastInside(Honest):
    def compute(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return super().compute(x).float()


class Fp32Inside(Honest):
    def compute(self, x):
        for layer in self.layers[::2]:
            x = torch.tanh(functional.linear(x.float(), layer.weight.float(), layer.bias.float())).to(x.dtype)
        return self.head(x)


# --- settings


class OneCore(Honest):
    def __init__(self):
        super().__init__()
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


class OneCoreLater(Honest):
    def compute(self, x):
        if self.calls == 3:
            for thread in os.listdir("/proc/self/task"):
                os.sched_setaffinity(int(thread), {min(os.sched_getaffinity(0))})
        return super().compute(x)


class OneThread(Honest):
    def compute(self, x):
        if self.calls == 3:
            torch.set_num_threads(1)
        return super().compute(x)


# --- times and counts: code in the cell's process that changes what measures


def _patched(change):
    class Patches(Honest):
        def __init__(self):
            super().__init__()
            change()

    return Patches


def _faster_blocks():
    from accelbench.measuring import runner

    measure = runner.Runner.block

    def block(self, num_steps):
        found = measure(self, num_steps)
        return type(found)(num_steps=num_steps, num_samples=found.num_samples, seconds=found.seconds / 4)

    runner.Runner.block = block


def _slow_clock():
    import time

    from accelbench.measuring import clock

    *_, reference, ranks, watch = clock.measure.__defaults__
    began = time.perf_counter()
    slow = lambda: began + (time.perf_counter() - began) / 4  # noqa: E731
    clock.measure.__defaults__ = (clock.no_compiles, slow, reference, ranks, watch)


def _edited_times():
    from accelbench.measuring import runner

    measured = runner.Timing.measured

    def edited(self):
        self.latency_s = [seconds / 5 for seconds in self.latency_s]
        for block in self.blocks:
            object.__setattr__(block, "seconds", block.seconds / 5)
        return measured(self)

    runner.Timing.measured = edited


def _more_samples():
    from accelbench.engines.lightning.own.batch import OwnTask

    OwnTask.num_samples = lambda self, batch: 10 * batch.num_samples


def _silent():
    from accelbench.measuring import witness

    witness._listeners.clear()


def _blocks_of_nothing():
    from accelbench.measuring import runner
    from accelbench.schema.measurement import Block

    def block(self, num_steps):
        return Block(num_steps=num_steps, num_samples=8 * num_steps, seconds=0.3)

    runner.Runner.block = block


FasterBlocks, SlowClock, EditedTimes = _patched(_faster_blocks), _patched(_slow_clock), _patched(_edited_times)
MoreSamples, Silent, BlocksOfNothing = _patched(_more_samples), _patched(_silent), _patched(_blocks_of_nothing)


def ten_each(batch):
    return 10 * len(batch)


# --- training


def nothing_to_learn(output, batch):
    return output.square().mean() * 0 + 1


def adamw(parameters, lr):
    return torch.optim.AdamW(parameters, lr=lr, weight_decay=0.1)


class NoStep(torch.optim.SGD):
    def step(self, closure=None):
        return None


def no_step(parameters, lr):
    return NoStep(parameters, lr=lr)


def zero_rate(parameters, lr):
    return torch.optim.Adam(parameters, lr=0.0)


def foreign(parameters, lr):
    return torch.optim.Adam([nn.Parameter(torch.ones(3))], lr=lr)


def one_of_all(parameters, lr):
    return torch.optim.Adam([list(parameters)[-1]], lr=lr)


def huge_rate(parameters, lr):
    return torch.optim.SGD(parameters, lr=1e30)


class Stops(torch.optim.Adam):
    calls = 0

    def step(self, closure=None):
        self.calls += 1
        return super().step(closure) if self.calls <= 3 else None


def stops(parameters, lr):
    return Stops(parameters, lr=lr)


def finite_anyway(output, batch):
    return torch.nan_to_num(output, 0, 0, 0).square().mean() + 0 * torch.nan_to_num(output).sum()


class NoBackward(Tensor):
    def backward(self, *args, **kwargs):
        return None


def no_backward(output, batch):
    return output.square().mean().as_subclass(NoBackward)


class DetachedInTheMiddle(Honest):
    def compute(self, x):
        return self.head(self.layers(x).detach())


class BodyWithoutGradients(Honest):
    def compute(self, x):
        with torch.no_grad():
            x = self.layers(x)
        return self.head(x)


class FreezesItself(Honest):
    def compute(self, x):
        if self.calls == 4:
            self.layers.requires_grad_(False)
        return super().compute(x)


class EvaluatesItself(Honest):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def compute(self, x):
        self.eval()
        return super().compute(self.drop(x))


class EverySecondForwardKept(Honest):
    """Computes its features for every second batch alone; the next one gets them too."""

    kept = None

    def compute(self, x):
        if self.calls % 2 or self.kept is None:
            features = self.layers(x)
            self.kept = features.detach()
            return self.head(features)
        return self.head(self.kept)


class FeaturesKeptByContent(Honest):
    """Keeps the features of each batch that it has seen, and trains its head alone."""

    def __init__(self):
        super().__init__(60)
        self.layers.requires_grad_(False)
        self.known = {}

    def compute(self, x):
        key = float(x.sum()), float(x.abs().sum())
        if key not in self.known:
            self.known[key] = self.layers(x)
        return self.head(self.known[key])
