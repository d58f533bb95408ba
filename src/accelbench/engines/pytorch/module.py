"""The measured steps of inference, training and evaluation. Also the task of a network: inputs, loss and metrics."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.nn import functional
from torch.optim import SGD, Adam, AdamW, Optimizer

from accelbench.engines.images import optimizer_named
from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.precision import step_context
from accelbench.engines.pytorch.structure import mapped, tensors_in
from accelbench.engines.targets import check_call, import_path
from accelbench.errors import UnsupportedError, UserError
from accelbench.schema.cell import Augment, ModelSpec, Phase, Precision

if TYPE_CHECKING:
    from accelbench.engines.pytorch.own_batches import OwnTask

Loss = Callable[[Any, Any], Tensor]  # (output, batch) -> loss
# `eps` is Keras' default, 1e-7, so that the engines on Keras and PyTorch compute the same numbers. PyTorch's default is
# 1e-8.
OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "adam": partial(Adam, eps=1e-7),
    "adamw": AdamW,
    "sgd": SGD,
}


def trainable(network: nn.Module) -> dict[str, nn.Parameter]:
    """The trainable tensors, by name."""
    return {name: weight for name, weight in network.named_parameters() if weight.requires_grad}


def new_optimizer(model: ModelSpec, network: nn.Module) -> Optimizer:
    """Makes the optimiser that `model.optimizer` names, for the trainable parameters of the network.

    The name is one of `OPTIMIZERS`, or a function of the user. The function is called with (parameters, lr=...).
    Raises UserError if the function does not accept these arguments, or if it returns no optimiser.
    """
    parameters = list(trainable(network).values())
    path = model.own_code.get("model.optimizer")
    if path is None:
        return optimizer_named(model.optimizer, OPTIMIZERS)(parameters, lr=model.learning_rate)
    make = import_path("model.optimizer", path)
    check_call(
        f"model.optimizer={path}, called with (parameters, lr={model.learning_rate})", make, [], lr=0.0
    )
    optimizer = make(parameters, lr=model.learning_rate)
    if not isinstance(optimizer, Optimizer):
        kind = type(optimizer).__name__
        raise UserError(f"model.optimizer={path}: should return a torch.optim.Optimizer, not a {kind}")
    return optimizer


def needs_closure(optimizer: Optimizer) -> bool:
    """Is true if the optimiser's `step`, like that of LBFGS, needs a function that computes the loss."""
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


@dataclass(frozen=True)
class ImageTask:
    """Prepares images for a network, runs the network, and computes its loss and metric.

    A batch is (images, labels) or (images,). `own_batches.OwnTask` has the methods `infer`, `train` and `num_samples`
    for the user's batches.
    """

    dtype: torch.dtype  # of the network's input
    augment: Augment = Augment.none
    reconstructs: bool = False  # whether the network's input is also the target, as for an autoencoder
    channels_last: bool = False
    own_loss: Loss | None = None  # the user's loss: (output, (inputs, labels)) -> mean of the batch
    own_metric: Callable[[Any, Any], Any] | None = None  # the user's metric, with the same arguments

    def infer(self, network: nn.Module, batch: Any) -> Any:
        return network(self.inputs(batch[0]))

    def train(self, network: nn.Module, batch: tuple[Tensor, ...]) -> tuple[Any, Tensor]:
        """Runs a forward pass. Returns the network's output and the mean loss."""
        images, labels = batch
        inputs = self.inputs(images if self.augment == Augment.none else augmented(images, self.augment))
        output = network(inputs)
        return output, self.loss(output, inputs, labels)

    def num_samples(self, batch: Any) -> int:
        return len(batch[0])

    def inputs(self, images: Tensor) -> Tensor:
        """Converts uint8 images to the network's input: floats from 0 to 1, with the channels before height and width.

        uint8 images have the shape (n, height, width) or (n, height, width, channels). Float images already have the
        shape of the network's input, and are not scaled. If `channels_last`, they get this memory format.
        """
        if images.is_floating_point():
            return images.contiguous(memory_format=torch.channels_last) if self.channels_last else images
        floats = images.to(self.dtype).div_(255)
        # `permute` returns a view: the memory stays channels-last, which is faster for convolutions.
        return floats.permute(0, 3, 1, 2) if images.dim() == 4 else floats

    def loss(self, output: Tensor, inputs: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
        """Computes the loss of a batch. If the user has defined a loss, returns its result, and ignores `reduction`.

        Otherwise, returns the mean squared error for a network that reconstructs its input, the binary cross-entropy
        for a network with one logit, and the cross-entropy for all other networks. `reduction` is "none" or "mean".
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
        """Returns the predicted class for each row of logits."""
        return (output[:, 0] > 0).long() if output.shape[1] == 1 else output.argmax(1)


def augmented(images: Tensor, augment: Augment) -> Tensor:
    """Augments images (n, height, width, ...). Mirrors an image with the probability 0.5.

    If `augment` is `flip_shift`, also shifts each image by up to 1/8 of its height and width, and fills the gap with
    the pixels of the edge. Random numbers come from torch's global generator on the images' device.
    """
    device = images.device
    num, height, width = images.shape[:3]
    most = (height // 8, width // 8) if augment == Augment.flip_shift else (0, 0)
    down, right = (torch.randint(-far, far + 1, (num, 1), device=device) for far in most)
    rows = torch.arange(height, device=device)
    columns = torch.arange(width, device=device)
    mirrored = torch.rand(num, 1, device=device) < 0.5
    rows = (rows + down).clamp(0, height - 1)
    columns = (torch.where(mirrored, width - 1 - columns, columns) + right).clamp(0, width - 1)
    return images[torch.arange(num, device=device)[:, None, None], rows[:, :, None], columns[:, None, :]]


@dataclass
class Program:
    """A network on its device, its task and its optimiser. In inference, there is no optimiser."""

    network: nn.Module
    task: "ImageTask | OwnTask"
    backend: Backend
    precision: Precision
    optimizer: Optimizer | None = None
    num_parts: int = 1  # processes that each compute a part of every batch

    def __post_init__(self) -> None:
        torch_type = self.backend.torch_type
        self.context = step_context(self.precision, torch_type)
        # Scales the loss in fp16_mixed, where small gradients would become 0.
        scales = self.optimizer is not None and self.precision == Precision.fp16_mixed
        self.scaler = GradScaler(torch_type) if scales else None


class InferStep:
    """A step of inference, which is one forward pass. For the parts of a step, see `measuring.clock.Step`."""

    adds_up = False  # whether the step adds up losses and correct answers
    result: Any  # the output of the last step, or in training its loss

    def __init__(self, program: Program, batches: Iterable[Any] = ()) -> None:
        self.program = program
        self.batches = iter(batches)
        self.network, self.task, self.context = program.network, program.task, program.context
        self.backend = backend = program.backend
        self.on_host = backend.torch_type == "cpu"  # nothing is copied then
        self.mark: Callable[[Phase], None] = lambda phase: None  # called at the end of each phase
        if self.adds_up:
            # Some users' losses have the shape (1,).
            zero = torch.zeros(1, dtype=torch.float32, device=backend.device())
            # float64 on devices that surely support it.
            precise = zero.double() if backend.torch_type in ("cpu", "cuda") else zero
            self.loss_sum = precise
            self.metric_sum = precise.clone()
            self.num_right = zero.long()
            # XLA runs the zeros now: as a part of the first step, they would cause a recompilation.
            backend.end_step()

    def fetch(self) -> Any:
        return next(self.batches)

    def copy_in(self, batch: Any) -> Any:
        """Copies a batch to the device. Images stay uint8."""
        return batch if self.on_host else self.backend.put(batch)

    def compute(self, batch: Any) -> Any:
        """Runs the network on the batch and returns the output."""
        # Frees the memory of the last output for this one, as in a loop that keeps no outputs.
        self.result = None
        with self.context():
            output = self.task.infer(self.network, batch)
        self.result = self.backend.gather(output)
        self.mark(Phase.forward)
        self.backend.end_step()
        return self.result

    def copy_out(self, result: Any) -> None:
        """Copies the output to the host. The output may be any structure of tensors."""
        if not self.on_host:
            for tensor in tensors_in(result):
                tensor.cpu()

    def num_samples(self, batch: Any) -> int:
        """Returns the number of samples in the whole batch. `batch` is this process's part, one of `num_parts`."""
        return self.task.num_samples(batch) * self.program.num_parts


class TrainStep(InferStep):
    """A step of training: a forward pass, a backward pass and the optimiser's step."""

    # The output and the loss of the first forward pass of this step.
    computed: tuple[Any, Tensor] | None = None

    def __init__(self, program: Program, batches: Iterable[Any] = ()) -> None:
        super().__init__(program, batches)
        assert program.optimizer is not None, "training has an optimiser"
        self.optimizer, self.scaler = program.optimizer, program.scaler
        self.needs_closure = needs_closure(self.optimizer)
        if self.needs_closure and self.scaler is not None:
            raise UnsupportedError(
                "precision=fp16_mixed: this optimiser does not support loss scaling: use precision=bf16_mixed"
            )

    def compute(self, batch: Any) -> Any:
        """Updates the weights and returns the loss."""
        if self.needs_closure:
            self.optimizer.step(lambda: self._backward(batch))  # type: ignore[arg-type, return-value]
        else:
            self._backward(batch)
        if self.scaler is not None:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        elif not self.needs_closure:
            self.optimizer.step()
        self.mark(Phase.optimizer)
        assert self.computed is not None
        output, loss = self.computed
        self.computed = None  # frees the output
        self.note(output, loss, batch)
        self.backend.end_step()
        self.result = loss.detach()
        return self.result

    def _backward(self, batch: Any) -> Tensor:
        """Computes the gradients. Returns the loss. An optimiser that needs a closure calls this several times."""
        self.optimizer.zero_grad()
        self.mark(Phase.optimizer)
        with self.context():
            output, loss = self.task.train(self.network, batch)
        self.mark(Phase.forward)
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()
        self.backend.reduce_gradients(self.optimizer)
        self.mark(Phase.backward)
        self.computed = self.computed or (output, loss)
        return loss

    def note(self, output: Any, loss: Tensor, batch: Any) -> None:
        """Does nothing: only `EpochStep` adds up losses."""

    def copy_out(self, result: Tensor) -> None:
        """Does nothing: the loss stays on the device."""


class EpochStep(TrainStep):
    """A training step on images that also adds up losses and correct answers on the device, as in `fit` of Keras."""

    task: ImageTask
    adds_up = True

    def note(self, output: Tensor, loss: Tensor, batch: Any) -> None:
        """Adds the sum of the samples' losses and the number of correct answers to the sums of the epoch."""
        _, labels = batch
        self.loss_sum += loss.detach().to(self.loss_sum) * len(labels)
        if not self.task.reconstructs:
            self.num_right += (self.task.answers(output.detach()) == labels).sum()


class TestStep(InferStep):
    """A step of evaluation on images. It runs a forward pass and adds up losses and correct answers.

    Leaves out padding, which has the label -1. The user's loss and metric return the mean of a batch. So the step
    multiplies each mean by the batch's number of samples.
    """

    task: ImageTask
    adds_up = True

    def compute(self, batch: Any) -> Tensor:
        images, labels = batch
        with self.context():
            inputs = self.task.inputs(images)
            output = self.network(inputs)
        task = self.task
        if task.own_loss is None:
            losses = task.loss(output, inputs, labels.clamp(min=0), reduction="none")
            losses = losses.flatten(1).mean(1) if losses.dim() > 1 else losses
            self.loss_sum += losses.mul(labels >= 0).sum()
        if (task.own_loss or task.own_metric) and (num := int((labels >= 0).sum())):  # padding is at the end
            unpadded = mapped(output, lambda tensor: tensor[:num])
            batch = (inputs[:num], labels[:num])
            for function, total in ((task.own_loss, self.loss_sum), (task.own_metric, self.metric_sum)):
                if function is not None:
                    total += num * torch.as_tensor(function(unpadded, batch)).to(total)
        if not task.reconstructs and isinstance(output, Tensor) and output.dim() == 2:
            self.num_right += (task.answers(output) == labels).sum()
        self.backend.end_step()
        return self.loss_sum
