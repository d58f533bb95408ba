"""A network and a data set, as the settings of a cell."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from accelbench.schema.ranges import AtLeastOne, Positive
from accelbench.schema.setting import setting
from accelbench.schema.vocab import USERS_OWN, Augment, Library, ModelOutput, Pipeline, Task, Weights

# The shapes of the images of data sets, as they are prepared unless params.yaml says otherwise.
SHAPES: Mapping[str, tuple[int, ...]] = {
    "mnist": (28, 28),
    "fashion_mnist": (28, 28),
    "cifar10": (3, 32, 32),
    "cats_vs_dogs": (3, 224, 224),
}


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A network and how it is trained."""

    # the name in labels and tables
    name: str = setting(help="the network; of timm, torchvision and transformers the library's name for it")
    library: Library = setting(Library.accelbench, "where the network comes from; model= chooses it", column=True)
    # the name in its library, for the user's own the class's dotted path; None if it equals `name`
    network: str | None = setting(None, "the accelbench network behind the name")
    factory: bool = setting(False, "whether target is any callable that makes a network")
    weights: str = setting(Weights.none.value, "none, pretrained, or the path of a .safetensors file", column=True)
    # of the network's constructor, such as dropout; for `transformers`, of its configuration
    args: dict[str, Any] = setting(factory=dict, help="arguments of the network; model.args.width=64,128 is an axis")
    task: Task | None = setting(None, "transformers: the head of the network")
    # for `custom`, called with the number of samples and `batch_args`; None for images
    batch: str | None = setting(None, "your own function that makes a batch: make_batch(batch_size, **batch_args)")
    collate: str | None = setting(
        None, "your own function that joins batches of one sample, where requests are served: collate([batch, ...])"
    )
    # of that function; for `transformers`, of accelbench's own
    batch_args: dict[str, Any] = setting(
        factory=dict, help="its arguments; model.batch_args.seq_len=128,512 is an axis"
    )
    # empty: those that the network's `forward` takes
    inputs: tuple[str, ...] = setting((), "the keys of the batch that the network gets")
    loss: str | None = setting(None, "your own loss: loss(output, batch)")  # None for the task's
    metric: str | None = setting(None, "your own metric of protocol=target: metric(output, batch) -> mean of a batch")
    # samples, tokens: None: the first dimension of the batch's first tensor, and no tokens
    samples: str | None = setting(None, "your own function that counts the samples of a batch")
    tokens: str | None = setting(None, "your own function that counts the tokens of a batch")
    optimizer: str = setting("adam", "adam, adamw, sgd, or your own function of the parameters")
    learning_rate: Positive = setting(1e-3, "of these three optimisers")
    # as of an empty network that shows what a step costs
    constant: bool = setting(False, "whether its output may be the same for all inputs")
    # `any` only for `custom`, in inference or with a loss
    output: ModelOutput = setting(ModelOutput.logits, "logits, or any for a network without classes")
    # input_shape, num_classes: of random images; a prepared data set defines both itself
    input_shape: tuple[AtLeastOne, ...] = setting(
        (28, 28),
        "of one sample, where no data set tells, such as 3x224x224",
        column=True,
        empty="a user's own batches, and data sets",
    )
    num_classes: AtLeastOne = setting(10, "of random labels")

    @property
    def word(self) -> str:
        """The word that chooses it: the name of one of accelbench's own networks, or the library."""
        return self.definition if self.library == Library.accelbench else self.library.value

    @property
    def definition(self) -> str:
        """The network's name in its library."""
        return self.network or self.name

    @property
    def weights_file(self) -> str | None:
        """The path of the file that the initial weights are in; None if they are in no file of the user's."""
        return None if self.weights in list(Weights) else self.weights

    @property
    def own_code(self) -> dict[str, str]:
        """The settings whose values are dotted paths of the user's own code, such as `model.loss`, and those paths."""
        paths = {name: getattr(self, name) for name in ("batch", "collate", "loss", "metric", "samples", "tokens")}
        paths["target"] = self.definition if self.library in USERS_OWN else None
        paths["optimizer"] = self.optimizer if "." in self.optimizer else None
        return {f"model.{name}": path for name, path in paths.items() if path is not None}

    @property
    def counted_by(self) -> str | None:
        """How a note ends that says what the user's function counts as samples; None if there is no such function."""
        return None if self.samples is None else f", counted by {self.samples}"

    def is_own(self, definition: str) -> bool:
        """Whether this is the network that accelbench itself defines as `definition`."""
        return (self.library, self.definition) == (Library.accelbench, definition)


@dataclass(frozen=True, kw_only=True)
class DataSpec:
    """A data set and how its batches are made."""

    name: str  # of a prepared data set
    # target, args: for `module`: the class's dotted path, and arguments of its constructor
    target: str | None = setting(None, "your own LightningDataModule")
    args: dict[str, Any] = setting(factory=dict, help="its arguments")
    path: str | None = setting(None, "folder, arrays: where your pictures or arrays are")
    pipeline: Pipeline = setting(Pipeline.array, "how batches reach the step", column=True)
    num_workers: AtLeastOne = setting(
        2, "processes that decode pictures (pipeline=jpeg)", column=True, empty="pipelines other than `jpeg`"
    )
    augment: Augment = setting(Augment.none, "how training images are varied on the device", column=True)
    pinned: bool = setting(True, "gpu: whether batches are copied to it from pinned memory")
    train_images: AtLeastOne | None = setting(
        None, "the first images of the training set, so many; unless given, all", column=True, empty="all"
    )
