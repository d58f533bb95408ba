"""Batches: gathered from arrays, decoded from pictures, or random."""

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
from accelbench.engines.pytorch.structure import copied, is_same, mapped, num_bytes, tensors_in
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import SERVING, Mode, Pipeline

JPEG = b"\xff\xd8\xff"  # how such a file begins
MAX_COMPARED = 3  # fresh batches that are compared with the one before
# Images (uint8; floats if random) and labels (int64), or only images.
Batch = tuple[Tensor, ...]


def pins(cell: Cell, backend: Backend) -> bool:
    """Whether batches are in pinned memory, from which a GPU copies them while the host goes on."""
    copies = cell.data.pipeline != Pipeline.device and cell.protocol not in SERVING  # whose batches are joined
    return backend.torch_type == "cuda" and cell.data.pinned and copies


def in_pinned(batch: Any) -> Any:
    """A batch with its dense tensors in pinned memory."""

    def pinned(tensor: Tensor) -> Tensor:
        is_dense = tensor.layout == torch.strided and not tensor.is_nested
        return tensor.pin_memory() if is_dense else tensor

    return mapped(batch, pinned)


class _OrderedFeed:
    """Batches of samples in an order, `num_samples` of them per epoch, perhaps in pinned memory."""

    def __init__(self, order: Order, pinned: bool) -> None:
        self.order, self.num_samples, self.pinned = order, order.num_samples, pinned

    def __iter__(self) -> Iterator[Batch]:
        return map(in_pinned, self._batches()) if self.pinned else self._batches()

    def _batches(self) -> Iterator[Batch]:
        raise NotImplementedError

    def padded(self, batch: Batch) -> Batch:
        """Where the order pads, a short batch is filled up with black images labelled -1."""
        missing = self.order.part_size - len(batch[0])
        if self.order.last != "pad" or not missing:
            return batch
        images = batch[0].new_zeros(missing, *batch[0].shape[1:])
        labels = [tensor.new_full((missing,), -1) for tensor in batch[1:]]
        return tuple(torch.cat(pair) for pair in zip(batch, [images, *labels], strict=True))


class ArrayFeed(_OrderedFeed):
    """Batches gathered by index from arrays, perhaps memory-mapped: images (n, ...) and, if `labelled`, labels (n)."""

    def __init__(self, arrays: Arrays, order: Order, *, labelled: bool = True, pinned: bool = False) -> None:
        super().__init__(order, pinned)
        images = torch.from_numpy(arrays.images)
        self.tensors = (images, torch.from_numpy(arrays.labels).long()) if labelled else (images,)

    def _batches(self) -> Iterator[Batch]:
        if self.order.shuffles or self.order.among is not None:
            return self._gathered()
        # Not shuffled: the batches are views of the arrays, made once; nothing is copied.
        views = []
        for chosen in self.order.one_epoch():
            run = slice(int(chosen[0]), int(chosen[-1]) + 1) if len(chosen) else slice(0)
            views.append(self.padded(tuple(tensor[run] for tensor in self.tensors)))
        return cycle(views) if self.order.endless else iter(views)

    def _gathered(self) -> Iterator[Batch]:
        pads = self.order.last == "pad"
        for chosen in self.order:
            indices = torch.from_numpy(chosen)
            batch = tuple([tensor.index_select(0, indices) for tensor in self.tensors])
            yield self.padded(batch) if pads else batch


class JpegFeed(_OrderedFeed):
    """Those of `ArrayFeed`, but for rounding, decoded from pictures in worker processes, again in each epoch."""

    def __init__(
        self, encoded: Encoded, side: int, order: Order, *, labelled: bool, num_workers: int, pinned: bool = False
    ) -> None:
        super().__init__(order, pinned)
        self.loader = DataLoader(
            _Pictures(encoded, side, labelled),
            batch_size=None,
            sampler=order,
            num_workers=num_workers,
            generator=torch.Generator(),  # else the workers' seed would use up a number of dropout's generator
        )

    def _batches(self) -> Iterator[Batch]:
        for batch in self.loader:
            yield self.padded(tuple(batch))


class _Pictures(Dataset[Batch]):
    def __init__(self, encoded: Encoded, side: int, labelled: bool) -> None:
        self.decode = Decoder(side)
        self.encoded = encoded
        self.side = side
        self.labelled = labelled

    def __getitem__(self, chosen: NDArray[np.int64]) -> Batch:
        images = torch.empty((len(chosen), self.side, self.side, 3), dtype=torch.uint8)
        for place, index in enumerate(chosen.tolist()):
            images[place] = self.decode(self.encoded[index])
        return (images, torch.from_numpy(self.encoded.labels[chosen]).long()) if self.labelled else (images,)


class Decoder:
    """Decodes a prepared set's pictures with torchvision's transforms, in half of the time of `data.decode`.

    That decodes other formats than JPEG, and its pixels differ by up to 1 of 255: torchvision rounds otherwise.
    """

    def __init__(self, side: int) -> None:
        from torchvision.io import decode_jpeg  # takes a second, and only pictures need it
        from torchvision.transforms import v2

        from accelbench.data.decode import decode  # imports PIL, which only pictures need

        self.decode = decode
        # bilinear, antialiased
        self.side = side
        self.decode_jpeg = decode_jpeg
        self.resize = v2.Resize([side, side])

    def __call__(self, content: bytes) -> Tensor:
        """The picture as uint8, side x side x 3."""
        if not content.startswith(JPEG):
            return torch.tensor(self.decode(content, self.side))
        encoded = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        pixels: Tensor = self.resize(self.decode_jpeg(encoded, "RGB", apply_exif_orientation=True))
        return pixels.permute(1, 2, 0)


class DrawnFeed:
    """Batches without end that `draw` makes on the host: a few in advance, which are repeated, or `fresh` ones.

    `put` copies a batch to the device, where it is repeated; without it several batches are repeated on the host, of a
    GPU in `pinned` memory. `count` counts the samples of a batch, if that differs between batches.
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
        self.copies = False  # whether each step gets a copy, since the code changes its batch
        self.repeats = False  # whether a fresh batch was equal to the one before
        first = self.draw()
        self.batches = [first if put is None else put(first)]  # that are repeated; of fresh ones, the first
        if put is None and not fresh:
            self.batches += [self.draw() for _ in range(num_drawn_ahead(num_bytes(first)) - 1)]
        self.nums = [count(batch) for batch in self.batches] if count is not None else []
        self.given: list[int] = []  # samples of the batches that were given, if they differ

    def __iter__(self) -> Iterator[Any]:
        return self._fresh() if self.fresh else self._repeated()

    def _repeated(self) -> Iterator[Any]:
        first = self.batches[0] if on_xla(self.batches[0]) else copied(self.batches[0])
        before = signature(first)
        self.given += self.nums[:1]
        yield first
        # This runs once the step is done that got the batch.
        self.copies = self.copies or (signature(first) != before and not on_xla(first))
        del first  # its memory on the device
        for index in count_from(1):
            place = index % len(self.batches)
            if self.nums:
                self.given.append(self.nums[place])
            batch = self.batches[place]
            yield copied(batch) if self.copies else batch

    def _fresh(self) -> Iterator[Any]:
        batch = self.batches[0]
        for index in count_from():
            if self.count is not None:
                self.given.append(self.count(batch))
            yield batch
            last = batch
            batch = self.draw()
            # A look at the first few is enough, and takes no time of later steps.
            if index < MAX_COMPARED:
                self.repeats = self.repeats or is_same(last, batch)

    @property
    def varies(self) -> bool:
        """Whether batches differ in their samples."""
        return len(set(self.nums)) > 1 or (self.fresh and bool(self.nums))

    def samples_of_last(self, num_steps: int) -> int:
        """Samples in the batches that were given last."""
        return sum(self.given[len(self.given) - num_steps :])


def on_xla(batch: Any) -> bool:
    """Whether a copy of the batch would be a part of the step that XLA compiles."""
    return any(tensor.device.type == "xla" for tensor in tensors_in(batch))


def signature(batch: Any) -> list[tuple[int, bool]]:
    """What shows that code has changed a batch: versions of its tensors, and whether they require gradients."""
    return [(tensor._version, tensor.requires_grad) for tensor in tensors_in(batch)]


Feed = ArrayFeed | JpegFeed | DrawnFeed


def random_images(
    shape: tuple[int, ...], num_classes: int, batch_size: int, dtype: torch.dtype, *, labelled: bool, seed: int
) -> Callable[[], Batch]:
    """Draws batches of normally distributed random images of a shape, on the host, if `labelled` with random labels."""
    generator = torch.Generator().manual_seed(seed)

    def draw() -> Batch:
        images = torch.randn(batch_size, *shape, generator=generator).to(dtype)
        labels = torch.randint(num_classes, (batch_size,), generator=generator)
        return (images, labels) if labelled else (images,)

    return draw


def feed_of(
    cell: Cell, split: str, data_folder: Path, dtype: torch.dtype, backend: Backend, part: tuple[int, int] = (0, 1)
) -> Feed:
    """The feed of `train`, `test` or `VALIDATION` of the arrays in `data_folder`, or of random images with `dtype`.

    `part` is the index of this process's part of every batch, and the number of parts.
    """
    labelled = cell.mode == Mode.train
    pinned = pins(cell, backend)
    if is_random(cell):
        model = cell.model
        seed = cell.seed + RANK_SEEDS * part[0]
        num = cell.batch_size // part[1]
        draw = random_images(model.input_shape, model.num_classes, num, dtype, labelled=labelled, seed=seed)
        put = backend.put if cell.data.pipeline == Pipeline.device else None
        fresh = cell.data.pipeline == Pipeline.fresh
        return DrawnFeed(draw, num, fresh=fresh, put=put, pinned=pinned)
    train = split == "train"
    # Every batch must have the same size: XLA compiles for each shape, and all ranks test as many batches.
    last: Last = "keep"
    if backend.fused or (part[1] > 1 and not train):
        last = "drop" if train else "pad"
    arrays = arrays_of(cell, split, data_folder)
    order = order_of(cell, split, len(arrays.labels), last=last, part=part)
    if cell.data.pipeline == Pipeline.array:
        return ArrayFeed(arrays, order, labelled=labelled, pinned=pinned)
    encoded = load_encoded(data_folder, "test" if split == "test" else "train")
    side = arrays.images.shape[1]
    return JpegFeed(encoded, side, order, labelled=labelled, num_workers=cell.data.num_workers, pinned=pinned)
