"""The LightningModule: a network, its task, and the steps that the clock runs.

Lightning calls `training_step` once per epoch or window, with the iterator over all its batches as the one item
(`feed.SingleItemLoader`). The clock runs inside that call, so that a step costs what it costs in a plain loop, while
Trainer, accelerator, strategy and precision are Lightning's. On several devices the network is wrapped
(`ranks.NetworkDDP`).
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD, Adam, AdamW, Optimizer

from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.feed import Batch
from accelbench.engines.lightning.outputs import tensors_in
from accelbench.engines.lightning.precision import step_context
from accelbench.engines.models import optimizer_named
from accelbench.schema.vocab import Augment, Phase
from accelbench.schema.workload import ModelSpec

# As in Keras, whose Adam has eps 1e-7; PyTorch's has 1e-8.
OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "adam": lambda parameters, lr: Adam(parameters, lr=lr, eps=1e-7),
    "adamw": lambda parameters, lr: AdamW(parameters, lr=lr),
    "sgd": lambda parameters, lr: SGD(parameters, lr=lr),
}


class Task:
    """What a network is trained on: its input, target and loss."""

    def __init__(
        self,
        dtype: torch.dtype,
        augment: Augment = Augment.none,
        *,
        reconstructs: bool = False,
        channels_last: bool = False,
    ) -> None:
        self.dtype = dtype
        self.augment = augment
        self.reconstructs = reconstructs  # the target is the input
        self.channels_last = channels_last  # in memory

    def inputs(self, images: Tensor) -> Tensor:
        """`images` as the input of the network.

        Args:
            images: uint8, 0 to 255, (n, height, width) or (n, height, width, channels); floats are not scaled.

        Returns:
            Floats from 0 to 1, channels before height and width.
        """
        if images.is_floating_point():
            return images.contiguous(memory_format=torch.channels_last) if self.channels_last else images
        floats = images.to(self.dtype).div_(255)
        # A view: the memory stays channels-last, which convolutions prefer.
        return floats.permute(0, 3, 1, 2) if images.dim() == 4 else floats

    def training_inputs(self, images: Tensor) -> Tensor:
        """`inputs`, augmented if the task says so."""
        return self.inputs(images if self.augment == Augment.none else varied(images, self.augment))

    def loss(self, output: Tensor, inputs: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
        """Cross-entropy of the logits, binary for a single logit; for the autoencoder the mean squared error."""
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
    """Mirrors each image at random; `flip_shift` also moves it by up to an eighth of its side, repeating its edges.

    Runs on the images' device for the whole batch, with torch's global generator.

    Args:
        images: (n, height, width, ...).
        augment: `flip` or `flip_shift`.
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


def new_sum(device: torch.device) -> Tensor:
    """A zero to which losses are added: float64, or float32 on XLA, since a TPU has no float64."""
    return torch.zeros((), dtype=torch.float32 if device.type == "xla" else torch.float64, device=device)


class BenchModule(pl.LightningModule):
    """A network as Lightning runs it.

    Args:
        network: maps float images to logits or images.
        model: gives the optimiser and the learning rate.
        task: gives the input and the loss.
        backend: the device.
    """

    def __init__(self, network: nn.Module, model: ModelSpec, task: Task, backend: Backend) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.network = network
        self.model = model
        self.task = task
        self.backend = backend
        self.num_parts = 1  # processes that each compute a part of every batch
        # Set by the engine before it uses the Trainer: what Lightning's calls do, and which steps run.
        self.conduct: Callable[[Any], None]
        self.evaluate: Callable[[Any], None]
        self.train_step: type[TrainStep] = TrainStep
        self.infer_step: type[InferStep] = InferStep

    def configure_optimizers(self) -> Optimizer:
        """The model's optimiser over its trainable parameters."""
        make = optimizer_named(self.model.optimizer, OPTIMIZERS)
        trainable = [parameter for parameter in self.parameters() if parameter.requires_grad]
        return make(trainable, lr=self.model.learning_rate)

    def training_step(self, batches: Iterator[Batch]) -> None:
        """One epoch, or a whole window of steps."""
        self.conduct(self.train_step(self, batches))

    def validation_step(self, batches: Iterator[Batch]) -> None:
        """The whole test set, after an epoch."""
        self.evaluate(TestStep(self, batches))

    def predict_step(self, batches: Iterator[Batch]) -> None:
        """One epoch, or a whole window of steps."""
        self.conduct(self.infer_step(self, batches))


def _unmarked(phase: Phase) -> None:
    """Does nothing: no breakdown is being measured."""


class InferStep:
    """A forward pass, in the parts that the clock times."""

    def __init__(self, module: BenchModule, batches: Iterator[Batch]) -> None:
        self.batches = batches
        self.network = module.network
        self.task = module.task
        self.num_parts = module.num_parts
        self.device = module.device
        self.end_step = module.backend.end_step
        self.put, self.gather = module.backend.put, module.backend.gather
        self.context = step_context(module.trainer.precision_plugin)
        self.forward = self.network if self.context is nullcontext else self._forward_in_context
        # Whether batches are computed in host memory, so that nothing is copied.
        self.on_host = self.device.type == "cpu"
        self.result: Any  # of the last step: the output or the loss
        self.mark: Callable[[Phase], None] = _unmarked  # called at the end of each phase

    def fetch(self) -> Batch:
        """The next batch, on the host."""
        return next(self.batches)

    def copy_in(self, batch: Batch) -> Batch:
        """The batch on the device, still uint8."""
        return batch if self.on_host else self.put(batch)

    def compute(self, batch: Batch) -> Any:
        """Returns the output for the batch's images."""
        self.result = self.gather(self.forward(self.task.inputs(batch[0])))
        self.mark(Phase.forward)
        self.end_step()
        return self.result

    def _forward_in_context(self, inputs: Tensor) -> Tensor:
        with self.context():
            output: Tensor = self.network(inputs)
        return output

    def copy_out(self, result: Tensor) -> None:
        """Moves the output to the host."""
        if not self.on_host:
            result.cpu()

    def num_samples(self, batch: Batch) -> int:
        """Samples in the whole batch, of which this process computes a part."""
        return len(batch[0]) * self.num_parts


class StructuredStep(InferStep):
    """A forward pass whose output is any structure of tensors (`model.output=any`)."""

    def copy_out(self, result: Any) -> None:
        """Moves the output's tensors to the host."""
        if not self.on_host:
            for tensor in tensors_in(result):
                tensor.cpu()


class TrainStep(InferStep):
    """A forward pass, a backward pass and the optimiser's step, as in a plain loop."""

    def __init__(self, module: BenchModule, batches: Iterator[Batch]) -> None:
        super().__init__(module, batches)
        self.optimizer = module.optimizers(use_pl_optimizer=False)
        # Lightning scales losses only for its wrapped optimiser; this is the plain one, so fp16_mixed scales here.
        self.scaler = getattr(module.trainer.precision_plugin, "scaler", None)
        self.reduce_gradients = module.backend.reduce_gradients

    def compute(self, batch: Batch) -> Any:
        """Updates the weights and returns the loss."""
        images, labels = batch
        self.optimizer.zero_grad()
        self.mark(Phase.optimizer)
        with self.context():
            inputs = self.task.training_inputs(images)
            output = self.network(inputs)
            loss = self.task.loss(output, inputs, labels)
        self.mark(Phase.forward)
        if self.scaler is None:
            loss.backward()
            self.reduce_gradients(self.optimizer)
            self.mark(Phase.backward)
            self.optimizer.step()
        else:
            self.scaler.scale(loss).backward()
            self.mark(Phase.backward)
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.mark(Phase.optimizer)
        self.note(output, loss, labels)
        self.end_step()
        self.result = loss.detach()
        return self.result

    def note(self, output: Tensor, loss: Tensor, labels: Tensor) -> None:
        """Keeps nothing: a window reports no losses. `EpochStep` does."""

    def copy_out(self, result: Tensor) -> None:
        """Does nothing: the loss of a training step stays on the device."""


class EpochStep(TrainStep):
    """A training step that also adds up losses and correct answers on the device, as Keras' `fit` does."""

    def __init__(self, module: BenchModule, batches: Iterator[Batch]) -> None:
        super().__init__(module, batches)
        self.loss_sum = new_sum(self.device)
        self.num_right = torch.zeros((), dtype=torch.int64, device=self.device)
        self.end_step()  # launches the zeros: else they would be part of the first step, which XLA would compile again

    def note(self, output: Tensor, loss: Tensor, labels: Tensor) -> None:
        """Adds the loss, weighted by samples, and the correct answers to the sums of the epoch."""
        self.loss_sum = self.loss_sum + loss.detach().to(self.loss_sum.dtype) * len(labels)
        if not self.task.reconstructs:
            self.num_right = self.num_right + (self.task.answers(output.detach()) == labels).sum()


class TestStep(InferStep):
    """A forward pass whose losses and correct answers are added up on the device.

    Where shapes are fixed, a short last batch is padded; padded samples are not counted.
    """

    def __init__(self, module: BenchModule, batches: Iterator[Batch]) -> None:
        super().__init__(module, batches)
        self.num_right = torch.zeros((), dtype=torch.int64, device=self.device)
        self.loss_sum = new_sum(self.device)
        self.end_step()  # as in `EpochStep`

    def compute(self, batch: Batch) -> Tensor:
        """Adds up one batch."""
        images, labels = batch
        with self.context():
            inputs = self.task.inputs(images)
            output = self.network(inputs)
        counted = labels >= 0  # padding is labelled -1
        losses = self.task.loss(output, inputs, labels.clamp(min=0), reduction="none")
        self.loss_sum = self.loss_sum + (losses.flatten(1).mean(1) if losses.dim() > 1 else losses).mul(counted).sum()
        if not self.task.reconstructs:
            self.num_right = self.num_right + ((self.task.answers(output) == labels) & counted).sum()
        self.end_step()
        return self.loss_sum
