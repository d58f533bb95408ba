"""What a network is run on and trained for: how its input and its loss are made of a batch."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from accelbench.schema.vocab import Augment

Put = Callable[[tuple[Tensor, ...]], tuple[Tensor, ...]]  # copies tensors to the device
Loss = Callable[[Any, Any], Tensor]  # (output, batch) -> loss


class ImageTask:
    """Images, and what is learnt from them. `own.batch.OwnTask` has the same methods for the user's batches.

    A batch is (images, labels), or (images,). The network's input has `dtype`; if it `reconstructs`, the target is its
    input. `own_loss` is a loss of the user's for (output, (inputs, labels)); None for the built-in one.
    """

    def __init__(
        self,
        dtype: torch.dtype,
        augment: Augment = Augment.none,
        *,
        reconstructs: bool = False,
        channels_last: bool = False,
        own_loss: Loss | None = None,
    ) -> None:
        self.dtype, self.augment, self.reconstructs = dtype, augment, reconstructs
        self.channels_last, self.own_loss = channels_last, own_loss

    def put(self, put: Put, batch: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The batch on the device; `put` copies tensors."""
        return put(batch)

    def infer(self, network: nn.Module, batch: Any) -> Any:
        """The network's output."""
        return network(self.inputs(batch[0]))

    def train(self, network: nn.Module, batch: tuple[Tensor, ...]) -> tuple[Any, Tensor]:
        """The network's output and its loss."""
        images, labels = batch
        inputs = self.inputs(images if self.augment == Augment.none else varied(images, self.augment))
        output = network(inputs)
        return output, self.loss(output, inputs, labels)

    def num_samples(self, batch: Any) -> int:
        return len(batch[0])

    def inputs(self, images: Tensor) -> Tensor:
        """Floats from 0 to 1, channels before height and width.

        `images` are uint8, (n, height, width) or (n, height, width, channels); floats are not scaled.
        """
        if images.is_floating_point():
            return images.contiguous(memory_format=torch.channels_last) if self.channels_last else images
        floats = images.to(self.dtype).div_(255)
        # A view: the memory stays channels-last, which convolutions prefer.
        return floats.permute(0, 3, 1, 2) if images.dim() == 4 else floats

    def loss(self, output: Tensor, inputs: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
        """Cross-entropy of the logits, binary for a single logit; for the autoencoder the mean squared error.

        The user's own loss, if there is one, takes no `reduction`.
        """
        if self.own_loss is not None:
            return self.own_loss(output, (inputs, labels))
        if self.reconstructs:
            return functional.mse_loss(output, inputs, reduction=reduction)
        if output.shape[1] == 1:
            target = labels.to(output.dtype)
            return functional.binary_cross_entropy_with_logits(output[:, 0], target, reduction=reduction)
        return functional.cross_entropy(output, labels, reduction=reduction)

    def answers(self, output: Tensor) -> Tensor:
        """The predicted class of each row of logits."""
        return (output[:, 0] > 0).long() if output.shape[1] == 1 else output.argmax(1)


def varied(images: Tensor, augment: Augment) -> Tensor:
    """Mirrors each image (n, height, width, ...) at random; `flip_shift` also moves it by up to an eighth of its side.

    The edges are repeated. Runs on the images' device for the whole batch, with torch's global generator.
    """
    num, height, width = images.shape[:3]
    columns = torch.arange(width, device=images.device).expand(num, width)
    mirrored = torch.rand(num, 1, device=images.device) < 0.5
    columns = torch.where(mirrored, width - 1 - columns, columns)
    rows = torch.arange(height, device=images.device).expand(num, height)
    if augment == Augment.flip_shift:
        down, right = (
            torch.randint(-(side // 8), side // 8 + 1, (num, 1), device=images.device) for side in (height, width)
        )
        rows, columns = (rows + down).clamp(0, height - 1), (columns + right).clamp(0, width - 1)
    return images[torch.arange(num, device=images.device)[:, None, None], rows[:, :, None], columns[:, None, :]]
