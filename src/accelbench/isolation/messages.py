"""Defines the messages between a sweep, its hosts and the processes of cells (children). They are sent as JSON.

sweep  -- Request -->  host  -- the same -->  child
sweep  <-- Outcome --  host  <-- Outcome --   child
"""

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from accelbench.schema.ceilings import Ceilings
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Ended
from accelbench.schema.secrets import masked
from accelbench.schema.serialize import load, plain
from accelbench.schema.text import MAX_REASON, beginning, ending, summary
from accelbench.schema.vocab import Precision

T = TypeVar("T")
# The actions: measure a cell, export its network, probe its device's ceilings.
Do = StrEnum("Do", ["run", "export", "probe"])


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request for an action on a cell. A function in the module `engine` performs the action."""

    cell: Cell
    engine: str
    data_folder: str
    timeout_s: float  # seconds after which the host kills the request's processes
    do: Do = Do.run
    log: str = ""  # file for the output of the processes; `Hosts` sets it
    precisions: list[Precision] = field(default_factory=list)  # precisions to probe
    # name of an argument of the engine's `run` -> path: `exported` is the folder of the exported network, `weights` the
    # file for the trained weights, and `requests` the file for the raw times of requests
    paths: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Outcome(Ended):
    """The result of a request. The child sends it, and the host adds `system`. Only the first rank has a measurement.

    `reason` and `error` are safe to print, because *** replaces secrets in them. `reason` contains only the first
    `MAX_REASON` characters, and `error` only the last `MAX_TEXT`.
    """

    ceilings: Ceilings | None = None  # ceilings of a probed device
    peak_host_bytes: int | None = None  # peak resident memory of the process, up to the end of the measurement

    def __post_init__(self) -> None:
        if self.reason is not None:
            object.__setattr__(self, "reason", beginning(summary(masked(self.reason)), MAX_REASON))
        if self.error is not None:
            object.__setattr__(self, "error", ending(masked(self.error)))


def encode(message: object) -> str:
    """Converts a message to JSON on one line."""
    return json.dumps(plain(message))


def decode(cls: type[T], text: str | bytes) -> T:
    """Reads a message that `encode` has written. `cls` is the type of the message."""
    return load(cls, json.loads(text))
