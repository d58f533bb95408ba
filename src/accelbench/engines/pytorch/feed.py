"""Feeds of batches. A feed gathers batches from arrays, decodes them from pictures, or draws random ones."""

from collections.abc import Callable, Iterator
from itertools import count as count_from
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from accelbench.data.arrays import Arrays, Encoded, load_encoded
from accelbench.data.order import Last, Order, num_drawn_ahead
from accelbench.engines.images import arrays_of, is_random, order_of
from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.ranks import RANK_SEEDS
from accelbench.engines.pytorch.structure import copied, mapped, num_bytes, tensors_in
from accelbench.schema.cell import SERVING, Cell, Mode, Pipeline

# (images, labels) or (images,). Images are uint8, or floats if they are random. Labels are int64.
Batch = tuple[Tensor, ...]


def pins(cell: Cell, backend: Backend) -> bool:
    """Is true if batches are in pinned memory, from which a GPU can copy while the host continues."""
    # Serving joins requests into new batches, so pinning the requests would not help.
    copies = cell.data.pipeline != Pipeline.device and cell.protocol not in SERVING
    return backend.torch_type == "cuda" and cell.data.pinned and copies


def in_pinned(batch: Any) -> Any:
    """Copies a batch's dense tensors into pinned memory."""

    def pinned(tensor: Tensor) -> Tensor:
        is_dense = tensor.layout == torch.strided and not tensor.is_nested
        return tensor.pin_memory() if is_dense else tensor

    return mapped(batch, pinned)


class _OrderedFeed:
    """A feed with the batches of an `Order`. An epoch has `num_samples` samples.

    If `pinned`, batches are in pinned memory.
    """

    def __init__(self, order: Order, pinned: bool) -> None:
        self.order, self.num_samples, self.pinned = order, order.num_samples, pinned

    def __iter__(self) -> Iterator[Batch]:
        return map(in_pinned, self._batches()) if self.pinned else self._batches()

    def _batches(self) -> Iterator[Batch]:
        raise NotImplementedError

    def padded(self, batch: Batch) -> Batch:
        """Adds black images with the label -1 to a short batch. Does nothing if `order.last` is not "pad"."""
        missing = self.order.part_size - len(batch[0])
        if self.order.last != "pad" or not missing:
            return batch
        images = batch[0].new_zeros(missing, *batch[0].shape[1:])
        labels = [tensor.new_full((missing,), -1) for tensor in batch[1:]]
        return tuple(torch.cat(pair) for pair in zip(batch, [images, *labels], strict=True))


class ArrayFeed(_OrderedFeed):
    """A feed that gathers batches by index from the arrays images (n, ...) and labels (n,).

    If not `labelled`, batches have only images. The arrays may be memory-mapped.
    """

    def __init__(self, arrays: Arrays, order: Order, *, labelled: bool = True, pinned: bool = False) -> None:
        super().__init__(order, pinned)
        images = torch.from_numpy(arrays.images)
        self.tensors = (images, torch.from_numpy(arrays.labels).long()) if labelled else (images,)

    def _batches(self) -> Iterator[Batch]:
        if self.order.shuffles or self.order.among is not None:
            return self._gathered()
        # Without a shuffle, batches are views of the arrays. They are made once, and nothing is copied.
        views = []
        for indices in self.order.one_epoch():
            rows = slice(int(indices[0]), int(indices[-1]) + 1) if len(indices) else slice(0)
            views.append(self.padded(tuple(tensor[rows] for tensor in self.tensors)))
        return cycle(views) if self.order.endless else iter(views)

    def _gathered(self) -> Iterator[Batch]:
        pads = self.order.last == "pad"
        for indices in self.order:
            rows = torch.from_numpy(indices)
            batch = tuple([tensor.index_select(0, rows) for tensor in self.tensors])
            yield self.padded(batch) if pads else batch


class JpegFeed(_OrderedFeed):
    """A feed that decodes pictures again in each epoch. Its batches are those of an `ArrayFeed`, except for rounding.

    `num_workers` processes decode pictures. `side` is the height and width of the images, in pixels.
    """

    def __init__(
        self,
        encoded: Encoded,
        side: int,
        order: Order,
        *,
        labelled: bool,
        num_workers: int,
        pinned: bool = False,
    ) -> None:
        super().__init__(order, pinned)
        self.loader = DataLoader(
            _Pictures(encoded, side, labelled),
            batch_size=None,
            sampler=order,
            num_workers=num_workers,
            # Otherwise, the workers' seed would come from the generator of dropout.
            generator=torch.Generator(),
        )

    def _batches(self) -> Iterator[Batch]:
        for batch in self.loader:
            yield self.padded(tuple(batch))


class _Pictures(Dataset[Batch]):
    def __init__(self, encoded: Encoded, side: int, labelled: bool) -> None:
        from accelbench.data.pictures import decode  # imports PIL, which only pictures need

        self.decode = decode
        self.encoded = encoded
        self.side = side
        self.labelled = labelled

    def __getitem__(self, indices: NDArray[np.int64]) -> Batch:
        pictures = [self.decode(self.encoded[index], self.side) for index in indices.tolist()]
        images = torch.from_numpy(np.stack(pictures))
        return (images, torch.from_numpy(self.encoded.labels[indices]).long()) if self.labelled else (images,)


class DrawnFeed:
    """An endless feed of batches that `draw` makes on the host.

    By default, a few batches are drawn in advance and repeated. If `fresh`, each step gets a new batch. If `put` is a
    function, it copies one batch to the device, and this batch is repeated. If `pinned`, batches are in pinned memory.

    `count` is a function that returns the number of samples of a batch. If `count` is None, each batch has
    `num_samples` samples.
    """

    def __init__(
        self,
        draw: Callable[[], Any],
        num_samples: int,
        *,
        fresh: bool = False,
        put: Callable[[Any], Any] | None = None,
        pinned: bool = False,
        count: Callable[[Any], int] | None = None,
    ) -> None:
        self.draw = (lambda: in_pinned(draw())) if pinned else draw
        self.num_samples, self.fresh, self.count = num_samples, fresh, count
        self.copies = False  # whether each step gets a copy, because the user's code changes its batch
        first = self.draw()
        # The repeated batches; if `fresh`, the first batch.
        self.batches = [first if put is None else put(first)]
        if put is None and not fresh:
            self.batches += [self.draw() for _ in range(num_drawn_ahead(num_bytes(first)) - 1)]
        self.nums = [count(batch) for batch in self.batches] if count is not None else []
        self.sizes: list[int] = []  # samples of each batch that was yielded, if batches differ

    def __iter__(self) -> Iterator[Any]:
        for index in count_from():
            place = index % len(self.batches)
            batch = self.draw() if self.fresh and index else self.batches[place]
            if self.count is not None:
                self.sizes.append(self.count(batch) if self.fresh else self.nums[place])
            if index or self.fresh or on_xla(batch):
                yield copied(batch) if self.copies else batch
                continue
            batch = copied(batch)
            before = signature(batch)
            yield batch
            # The step has used the batch.
            self.copies = self.copies or signature(batch) != before

    @property
    def varies(self) -> bool:
        """Is true if batches may have different numbers of samples."""
        return len(set(self.nums)) > 1 or (self.fresh and bool(self.nums))

    def samples_of_last(self, num_steps: int) -> int:
        """Returns the number of samples in the last `num_steps` batches."""
        return sum(self.sizes[len(self.sizes) - num_steps :])


def on_xla(batch: Any) -> bool:
    """Is true if a batch is on an XLA device. There, a copy of the batch would become a part of the compiled step."""
    return any(tensor.device.type == "xla" for tensor in tensors_in(batch))


def signature(batch: Any) -> list[tuple[int, bool]]:
    """Returns (version, requires_grad) for each tensor in a batch. The values change if code modifies a tensor."""
    return [(tensor._version, tensor.requires_grad) for tensor in tensors_in(batch)]


Feed = ArrayFeed | JpegFeed | DrawnFeed


def random_images(
    shape: tuple[int, ...],
    num_classes: int,
    batch_size: int,
    dtype: torch.dtype,
    *,
    labelled: bool,
    seed: int,
) -> Callable[[], Batch]:
    """Returns a function that draws batches of random images on the host.

    Images have the shape (batch_size, *shape) and a normal distribution. If `labelled`, a batch also has random labels.
    """
    generator = torch.Generator().manual_seed(seed)

    def draw() -> Batch:
        images = torch.randn(batch_size, *shape, generator=generator).to(dtype)
        labels = torch.randint(num_classes, (batch_size,), generator=generator)
        return (images, labels) if labelled else (images,)

    return draw


def feed_of(
    cell: Cell,
    split: str,
    data_folder: Path,
    dtype: torch.dtype,
    backend: Backend,
    part: tuple[int, int] = (0, 1),
) -> Feed:
    """Makes the feed of a split: "train", "test" or `VALIDATION`. For random images, makes a feed of images of `dtype`.

    `part` is a pair (index, number). Every batch has `number` equal parts, and this process computes part `index`.
    """
    pipeline = cell.data.pipeline
    labelled = cell.mode == Mode.train
    pinned = pins(cell, backend)
    if is_random(cell):
        model = cell.model
        seed = cell.seed + RANK_SEEDS * part[0]
        num = cell.batch_size // part[1]
        return DrawnFeed(
            random_images(model.input_shape, model.num_classes, num, dtype, labelled=labelled, seed=seed),
            num,
            fresh=pipeline == Pipeline.fresh,
            put=backend.put if pipeline == Pipeline.device else None,
            pinned=pinned,
        )
    train = split == "train"
    # All batches must have the same size in two cases. XLA compiles for each shape. If several ranks evaluate, all
    # ranks must run the same number of batches.
    last: Last = "keep"
    if backend.fused or (part[1] > 1 and not train):
        last = "drop" if train else "pad"
    arrays = arrays_of(cell, split, data_folder)
    order = order_of(cell, split, len(arrays.labels), last=last, part=part)
    if pipeline == Pipeline.array:
        return ArrayFeed(arrays, order, labelled=labelled, pinned=pinned)
    encoded = load_encoded(data_folder, "test" if split == "test" else "train")
    side = arrays.images.shape[1]
    return JpegFeed(encoded, side, order, labelled=labelled, num_workers=cell.data.num_workers, pinned=pinned)
