"""What an engine that compiles a network of PyTorch has to do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor, nn

from accelbench.engines.exported.build import Call
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Precision


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What an engine says of a network that it has compiled, read back from it.

    Attributes:
        stored, computed: the dtypes of weights and of matrix products, by their names in NumPy.
        threads: that compute; None if the engine does not say.
        formats: how many operators that multiply matrices compute in each format; empty if the engine does not say.
        times: the operators of one profiled call in turn, each with its name and seconds; empty if there is no profile.
        flushes_denormals: whether it was set to compute with 0 instead of denormal numbers; None of an engine that runs
            in PyTorch's threads, which are tested.
    """

    stored: str
    computed: str
    threads: int | None
    formats: Mapping[str, int] = field(default_factory=dict)
    times: Sequence[tuple[str, float]] = ()
    flushes_denormals: bool | None = None


@dataclass(frozen=True)
class Saved:
    """A network that can be loaded.

    Attributes:
        path: of the file to load, beside which there may be others that belong to it.
        formats: see `Ran.formats`, of an engine that knows them already; else empty.
    """

    path: Path
    formats: Mapping[str, int] = field(default_factory=dict)


class Compiled(Protocol):
    """A compiled network, for batches of one size."""

    def __call__(self, call: Call) -> Sequence[Tensor]:
        """The output's tensors; a further call may overwrite them."""

    def ran(self, call: Call) -> Ran:
        """What ran, perhaps from a further `call` under a profiler. To be called after everything was measured."""


class Compiler(Protocol):
    """An engine: a network -> a file -> what runs, perhaps in another process.

    Attributes:
        computes_in: the precision that the network and its inputs are given in; None: that of the cell.
    """

    computes_in: Precision | None

    def export(self, network: nn.Module, call: Call, folder: Path) -> Any:
        """The network in a form that `compile` takes, or the path of a file in `folder` that has it.

        Raises:
            UnsupportedError: it can't be exported, with the reason.
        """

    def quantized(self, exported: Any, calls: Sequence[Call], folder: Path) -> Any:
        """What `export` returned, with int8 matrix products, in the same form.

        Args:
            exported: the network.
            calls: for the ranges of activations; at least one.
            folder: of files.

        Raises:
            UnsupportedError: it can't be quantised, with the reason.
        """

    def save(self, exported: Any, cell: Cell, folder: Path) -> Saved:
        """Saves what `export` or `quantized` returned in `folder`, if they have not, and may compile it first.

        Raises:
            UnsupportedError: it can't be compiled, with the reason.
        """

    def load(self, path: Path, formats: Mapping[str, int], cell: Cell, threads: int) -> Compiled:
        """The network, compiled for this machine, from what `save` returned, perhaps in another process.

        Args:
            path: of the file.
            formats: of its operators, as far as `save` knew them.
            cell: to be run.
            threads: to compute with.
        """
