"""A network and a data set, as the settings of a cell."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from accelbench.schema.ranges import AtLeastOne, NotNegative
from accelbench.schema.vocab import USERS_OWN, Augment, Library, ModelOutput, Pipeline, Task, Weights


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A network and how it is trained.

    Attributes:
        name: the name in labels and tables.
        library: where the network is defined.
        network: the name in that library, for the user's own the class's dotted path; None if it equals `name`.
        factory: for the user's own: whether they trust any callable at that path to make a network.
        weights: the initial weights: a word of `vocab.Weights`, or the path of a file.
        args: arguments of the network's constructor, such as dropout; for `transformers`, of its configuration.
        task: for `transformers`.
        batch: for `custom`: dotted path of the function that makes a batch, called with the number of samples and
            `batch_args`; None for images.
        batch_args: arguments of that function; for `transformers`, of accelbench's own.
        inputs: keys of a batch that are arguments of the network; empty: those that its `forward` takes.
        loss: for `custom`: dotted path of the function that gives the loss of (output, batch); None for the task's.
        samples, tokens: dotted paths of functions that count those of a batch; None: the first dimension of its first
            tensor, and no tokens.
        optimizer: `adam`, `adamw` or `sgd`; for `custom` also the dotted path of a function that makes one.
        learning_rate: of the optimiser.
        constant: whether the output may be the same for all inputs and weights, as of an empty network that shows what
            a step costs.
        output: what the network returns; `any` only for `custom`, in inference or with a loss.
        input_shape, num_classes: shape and classes of random images; a prepared data set defines both itself.
    """

    name: str
    library: Library = Library.accelbench
    network: str | None = None
    factory: bool = False
    weights: str = Weights.none.value
    args: Mapping[str, Any] = field(default_factory=dict)
    task: Task | None = None
    batch: str | None = None
    batch_args: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    loss: str | None = None
    samples: str | None = None
    tokens: str | None = None
    optimizer: str = "adam"
    learning_rate: NotNegative = 1e-3
    constant: bool = False
    output: ModelOutput = ModelOutput.logits
    input_shape: tuple[AtLeastOne, ...] = (28, 28)
    num_classes: AtLeastOne = 10

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
        paths = {"target": self.definition} if self.library in USERS_OWN else {}
        paths |= {name: path for name in ("batch", "loss", "samples", "tokens") if (path := getattr(self, name))}
        paths |= {"optimizer": self.optimizer} if "." in self.optimizer else {}
        return {f"model.{name}": path for name, path in paths.items()}

    @property
    def counted_by(self) -> str | None:
        """How a note ends that says what the user's function counts as samples; None if there is no such function."""
        return None if self.samples is None else f", counted by {self.samples}"

    def is_own(self, definition: str) -> bool:
        """Whether this is the network that accelbench itself defines as `definition`."""
        return (self.library, self.definition) == (Library.accelbench, definition)


@dataclass(frozen=True, kw_only=True)
class DataSpec:
    """A data set and how its batches are made.

    Attributes:
        name: of a prepared data set.
        num_workers: processes that decode pictures, for the pipeline `jpeg`.
        target: for `module`: dotted path of the user's LightningDataModule.
        args: for `module`: arguments of its constructor.
        path: for `folder` and `arrays`: where the user's data are.
    """

    name: str
    target: str | None = None
    args: Mapping[str, Any] = field(default_factory=dict)
    path: str | None = None
    pipeline: Pipeline = Pipeline.array
    num_workers: AtLeastOne = 2
    augment: Augment = Augment.none
