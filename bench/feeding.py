"""How fast batches are fed, compared with the usual way: torchvision's data sets and PyTorch's DataLoader.

Each round feeds the same pictures once with accelbench and once with the DataLoader; the ratio within a round is
compared. Then: how long a training step waits for its batch, and how fast pictures are prepared.
"""

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import MNIST, ImageFolder

from accelbench.data.arrays import Arrays, load_encoded, load_split
from accelbench.data.decode import decode
from accelbench.data.order import Order
from accelbench.data.pictures import Folder, convert
from accelbench.engines.lightning.feed import ArrayFeed
from accelbench.engines.lightning.task import ImageTask
from accelbench.isolation.hosts import Hosts
from accelbench.project import workplace
from accelbench.schema.cell import Cell, Window
from accelbench.schema.vocab import Device, Engine, Mode, Precision, Protocol
from accelbench.schema.workload import DataSpec, ModelSpec
from accelbench.stats.order_statistics import median

NUM_ROUNDS = 5
NUM_PREPARED = 10
MAX_PICTURES = 2_000
SIDE = 224
CLASSES = ("cat", "dog")
WINDOW = Window(measure_s=5.0)


def main() -> None:
    """Prints each ratio beside its target."""
    data = workplace().root / "data"
    with tempfile.TemporaryDirectory() as temporary:
        feed_digits(data / "mnist", Path(temporary, "digits"))
        photos = Path(temporary, "photos")
        write_photos(data / "cats_vs_dogs", photos)
        feed_photos(data / "cats_vs_dogs", photos)
        prepare_photos(photos, Path(temporary, "arrays"))
    for model, name, batch_size, most in (("mlp", "mnist", 128, 0.03), ("pets_cnn", "cats_vs_dogs", 32, 0.05)):
        share = data_wait(data / name, model, batch_size)
        print(f"{model} b{batch_size} train: {share:.2%} of a step is data wait (target: at most {most:.0%})")


def feed_digits(folder: Path, temporary: Path) -> None:
    """Compares batches of 128 images of 28 x 28."""
    arrays = load_split(folder, "train")
    write_idx(folder, temporary / "MNIST" / "raw")
    theirs = DataLoader(MNIST(temporary, transform=transforms.ToTensor()), batch_size=128, shuffle=True, num_workers=2)
    ours = ArrayFeed(arrays, Order(len(arrays.labels), 128, shuffle=True, last="keep"))
    say("28 x 28, batches of 128", ratios(lambda: ours, lambda: theirs), 20)


def feed_photos(folder: Path, photos: Path) -> None:
    """Compares batches of 32 colour images of 224 x 224, as bytes and as floats."""
    arrays = load_split(folder, "train")
    steps = [transforms.Resize((SIDE, SIDE)), transforms.ToTensor()]
    theirs = DataLoader(ImageFolder(photos, transforms.Compose(steps)), batch_size=32, shuffle=True, num_workers=2)
    ours = ArrayFeed(arrays, Order(len(arrays.labels), 32, shuffle=True, last="keep"))
    say("224 x 224, batches of 32, bytes", ratios(lambda: ours, lambda: theirs), 50)
    task = ImageTask(torch.float32)

    def floats() -> Iterator[Tensor]:
        return (task.inputs(images) for images, _ in ours)

    say("224 x 224, batches of 32, floats", ratios(floats, lambda: theirs), 6)


def ratios(ours: Callable[[], Iterable[object]], theirs: Callable[[], Iterable[object]]) -> list[float]:
    """Accelbench's batches per second divided by the DataLoader's, one per round, without the start of workers."""
    rate(ours, 1.0)  # maps the pages, as the first epoch does
    return [rate(ours, 1.0) / rate(theirs, 4.0) for _ in range(NUM_ROUNDS)]


def rate(batches: Callable[[], Iterable[object]], seconds: float) -> float:
    """Batches per second for at least `seconds`, from the second batch of each epoch."""
    num, spent = 0, 0.0
    while spent < seconds:
        source = iter(batches())
        next(source)
        start = time.perf_counter()
        for _ in source:
            num += 1
            if spent + time.perf_counter() - start > seconds:
                break
        spent += time.perf_counter() - start
    return num / spent


def prepare_photos(photos: Path, folder: Path) -> None:
    """Compares the data stage's conversion with decoding and resizing in one process."""
    folder.mkdir()
    source = Folder(photos)
    names = source.names()
    found = []
    for _ in range(NUM_PREPARED):
        start = time.perf_counter()
        convert(source, CLASSES, SIDE, folder, keep_encoded=True)
        ours = time.perf_counter() - start
        start = time.perf_counter()
        for name in names:
            one_by_one(photos / name)
        found.append((time.perf_counter() - start) / ours)
    say(f"preparing {len(names):,} pictures", found, 1.6)
    differences = [
        np.abs(decode((photos / name).read_bytes(), SIDE).astype(float) - one_by_one(photos / name)).mean()
        for name in names[:100]
    ]
    print(f"mean difference from Pillow's bilinear: {max(differences):.3f} / 255 at most (target: at most 1)")


def one_by_one(path: Path) -> NDArray[np.uint8]:
    """Decodes and resizes one file, as a plain loop does."""
    with Image.open(path) as image:
        resized = image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    return np.asarray(resized)


def data_wait(folder: Path, model: str, batch_size: int) -> float:
    """The share of a training step's time that is spent waiting for its batch."""
    cell = Cell(
        suite="bench",
        engine=Engine.lightning,
        device=Device.cpu,
        model=ModelSpec(name=model),
        data=DataSpec(name=folder.name),
        mode=Mode.train,
        precision=Precision.fp32,
        batch_size=batch_size,
        protocol=Protocol.window,
        epochs=1,
        window=WINDOW,
    )
    with Hosts() as hosts:
        measured = hosts.run(cell, folder).measurement
    assert measured is not None, "the cell has failed"
    return sum(measured.data_s) / sum(measured.latency_s)


def write_idx(folder: Path, raw: Path) -> None:
    """Writes the prepared set in the form that torchvision reads."""
    raw.mkdir(parents=True)
    for split, short in (("train", "train"), ("test", "t10k")):
        arrays: Arrays = load_split(folder, split)
        for kind, values in (("images-idx3", arrays.images), ("labels-idx1", arrays.labels)):
            head = bytes([0, 0, 8, values.ndim]) + b"".join(length.to_bytes(4, "big") for length in values.shape)
            (raw / f"{short}-{kind}-ubyte").write_bytes(head + values.tobytes())


def write_photos(folder: Path, photos: Path) -> None:
    """Writes the prepared set's pictures as files, one folder per class."""
    encoded = load_encoded(folder, "train")
    for label, name in enumerate(CLASSES):
        (photos / name).mkdir(parents=True)
        for index in islice(np.flatnonzero(encoded.labels == label), MAX_PICTURES // 2):
            (photos / name / f"{index}.jpg").write_bytes(encoded[int(index)])


def say(what: str, found: list[float], target: float) -> None:
    """Prints the median ratio, its range and the target."""
    print(f"{what}: {median(found):.3g} x ({min(found):.3g} to {max(found):.3g}; target: {target:g} x)", flush=True)
