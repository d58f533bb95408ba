"""The settings of a cell that describe its network and its data set."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from accelbench.schema.ranges import AtLeastOne, Positive
from accelbench.schema.setting import setting
from accelbench.schema.vocab import USERS_OWN, Augment, Library, ModelOutput, Pipeline, Task, Weights

# Data set -> the shape of its prepared images, unless params.yaml has another one.
SHAPES: Mapping[str, tuple[int, ...]] = {
    "mnist": (28, 28),
    "fashion_mnist": (28, 28),
    "cifar10": (3, 32, 32),
    "cats_vs_dogs": (3, 224, 224),
}


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A network and how it is trained."""

    # the network's name in labels and tables
    name: str = setting(help="name of the network, as accelbench, timm, torchvision or transformers calls it")
    library: Library = setting(Library.accelbench, "library of the network; model=... sets it", column=True)
    # the name in its library, or the dotted path of the user's class; None if it equals `name`
    network: str | None = setting(
        None, "name of the network in its library, such as mlp for model.name=mlp_cifar10. Default: model.name"
    )
    factory: bool = setting(False, "whether model.target may be a function without a return annotation")
    weights: str = setting(
        Weights.none.value, "none (random weights), pretrained, or the path of a .safetensors file", column=True
    )
    # arguments of the network's constructor, such as dropout; for `transformers`, arguments of the configuration
    args: dict[str, Any] = setting(
        factory=dict, help="arguments of the network; with -m, model.args.width=64,128 measures both"
    )
    task: Task | None = setting(None, "model=transformers: task of the network, which decides its head and loss")
    # for `custom`, a function of the number of samples and `batch_args`; None for images
    batch: str | None = setting(None, "your own function that makes a batch: make_batch(batch_size, **batch_args)")
    collate: str | None = setting(
        None, "your own function that joins batches of one sample (requests) to one batch: collate([batch, ...])"
    )
    # for `transformers`, arguments of accelbench's own function that makes batches
    batch_args: dict[str, Any] = setting(
        factory=dict, help="arguments of model.batch; with -m, model.batch_args.seq_len=128,512 measures both"
    )
    # if empty, the network gets the keys that its `forward` takes
    inputs: tuple[str, ...] = setting((), "keys of the batch whose values are the network's arguments")
    loss: str | None = setting(None, "your own loss function: loss(output, batch)")  # None: the loss of the task
    metric: str | None = setting(None, "protocol=target: your own function metric(output, batch) -> mean of the batch")
    # If `samples` is None, the first dimension of the batch's first tensor counts. If `tokens` is None, there are none.
    samples: str | None = setting(None, "your own function that counts the samples of a batch")
    tokens: str | None = setting(None, "your own function that counts the tokens of a batch")
    optimizer: str = setting("adam", "adam, adamw, sgd, or your own function, called with the parameters")
    learning_rate: Positive = setting(1e-3, "learning rate of adam, adamw or sgd")
    # true for example for an empty network, which shows the cost of a step
    constant: bool = setting(False, "whether the network's output may be the same for all inputs")
    # `any` only for `custom`, in inference or with a loss
    output: ModelOutput = setting(
        ModelOutput.logits, "what the network returns: logits of classes, or any other output"
    )
    # input_shape and num_classes are for random images; a prepared data set defines both itself
    input_shape: tuple[AtLeastOne, ...] = setting(
        (28, 28),
        "shape of one sample without a data set, such as 3x224x224",
        column=True,
    )
    num_classes: AtLeastOne = setting(10, "data=random: number of classes of the random labels")

    @property
    def word(self) -> str:
        """The value of the setting `model` for this network: its name if it is accelbench's own, else the library."""
        return self.definition if self.library == Library.accelbench else self.library

    @property
    def definition(self) -> str:
        """The network's name in its library."""
        return self.network or self.name

    @property
    def weights_file(self) -> str | None:
        """The path of the user's file with the initial weights. None if there is no such file."""
        return None if self.weights in list(Weights) else self.weights

    @property
    def own_code(self) -> dict[str, str]:
        """Maps a setting to the dotted path of the user's code that it names: `model.loss` to `nets.my_loss`."""
        paths = {name: getattr(self, name) for name in ("batch", "collate", "loss", "metric", "samples", "tokens")}
        paths["target"] = self.definition if self.library in USERS_OWN else None
        paths["optimizer"] = self.optimizer if "." in self.optimizer else None
        return {f"model.{name}": path for name, path in paths.items() if path is not None}

    def is_own(self, definition: str) -> bool:
        """Whether this is accelbench's own network of the name `definition`."""
        return (self.library, self.definition) == (Library.accelbench, definition)


@dataclass(frozen=True, kw_only=True)
class DataSpec:
    """A data set and how its batches are made."""

    name: str  # name of the prepared data set
    # for `module`, `target` is the class's dotted path, and `args` are the arguments of its constructor
    target: str | None = setting(None, "dotted path of your own LightningDataModule")
    args: dict[str, Any] = setting(factory=dict, help="arguments of data.target")
    path: str | None = setting(None, "path of your pictures (data=folder) or arrays (data=arrays)")
    pipeline: Pipeline = setting(
        Pipeline.array,
        "source of batches. array, jpeg: data set; host: host memory; device: device memory; fresh: made in each step",
        column=True,
    )
    num_workers: AtLeastOne = setting(2, "data.pipeline=jpeg: processes that decode pictures", column=True)
    augment: Augment = setting(Augment.none, "how training images are randomly varied on the device", column=True)
    pinned: bool = setting(True, "device=gpu: whether batches are copied from pinned memory")
    train_images: AtLeastOne | None = setting(
        None, "number of training images to use, counted from the first. Default: all", column=True
    )
