"""The messages between a sweep, its hosts and the processes of the cells. On the wire each is one JSON text.

sweep  -- Request -->  host  -- the same -->  child
sweep  <-- Outcome --  host  <-- Outcome --   child

Before, the child reports that nothing more is timed, which the host passes on.
"""

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from accelbench.schema.ceilings import Ceilings
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Ended, Work
from accelbench.schema.secrets import masked
from accelbench.schema.serialize import load, plain
from accelbench.schema.text import MAX_REASON, beginning, ending, summary
from accelbench.schema.vocab import Precision

T = TypeVar("T")
# Measure a cell, or only check that its network runs, count its work, export it, or probe its device's ceilings.
Do = StrEnum("Do", ["run", "check", "count", "export", "probe"])


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is to be done with a cell, by a function of the module `engine`."""

    cell: Cell
    engine: str
    data_folder: str
    timeout_s: float  # after which the host kills the request's processes
    do: Do = Do.run
    num_processes: int = 1  # ranks
    log: str = ""  # the file that gets what the processes print; `Hosts` chooses it
    precisions: list[Precision] = field(default_factory=list)  # true ones, to probe
    exported: str | None = None  # the folder that the network is exported to, or has been, if the engine exports any
    weights: str | None = None  # the file that gets the trained weights; None: they are not saved
    requests: str | None = None  # the file that gets the raw times of requests; None: no requests are served
    work: Work | None = None  # of one step, as a cell counted it that differs only in seed or repeat, if one did


@dataclass(frozen=True, kw_only=True)
class Outcome(Ended):
    """How a request ended, as a process reports, and then its host, which adds `system`.

    Texts are safe to print, with *** for secrets: `reason` is the `summary` of what is given, at most `MAX_REASON`, and
    `error` its end, at most `MAX_TEXT`. Every rank but the first has no measurement.
    """

    ceilings: Ceilings | None = None  # of a probed device
    work: Work | None = None  # of a step that was only counted
    peak_host_bytes: int | None = None  # of the process's resident memory, up to the end of the measurement

    def __post_init__(self) -> None:
        if self.reason is not None:
            object.__setattr__(self, "reason", beginning(summary(masked(self.reason)), MAX_REASON))
        if self.error is not None:
            object.__setattr__(self, "error", ending(masked(self.error)))


def encode(message: object) -> str:
    """The JSON of a message, or of a mapping with such values, on one line."""
    return json.dumps(plain(message))


def decode(cls: type[T], text: str | bytes) -> T:
    """The message of the type `cls` that `encode` wrote."""
    return load(cls, json.loads(text))
