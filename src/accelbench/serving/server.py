"""Serves requests: batches them, has workers compute the batches, and keeps the times of each request."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelbench.schema.cell import Server
from accelbench.schema.vocab import Protocol

Times = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Service:
    """What answers requests."""

    pool: Sequence[Any]  # requests: batches of one sample in host memory; request i is pool[i % len(pool)]
    join: Callable[[Sequence[Any]], Any]  # several of them -> one batch
    # each computes a batch, and returns when the result is in host memory; called by one thread each
    workers: Sequence[Callable[[Any], None]]
    # of batches that can be computed, ascending, the last one is `max_batch`: a batch in between is padded, with its
    # last request repeated; empty: any up to `max_batch`
    sizes: Sequence[int] = ()
    max_batch: int = 1
    # called with the index of a worker, in the thread that will call it, before anything is timed: its warm-up. The
    # first worker is called in the thread that calls `serve`
    prepare: Callable[[int], None] = lambda index: None


@dataclass(frozen=True, kw_only=True)
class Served:
    """Raw times of each request, in nanoseconds of CLOCK_MONOTONIC; -1: did not happen.

    A request of `multi_stream` is a query of eight samples. A run that ended early has the requests whose fate is
    known: those that were answered, and those that had waited for longer than the limit.
    """

    due: Times
    issued: Times
    dispatched: Times
    done: Times
    batches: Mapping[int, int]  # samples of a batch -> how many such batches
    num_padded: int  # places in batches that no request filled
    busy_ns: int  # in which workers computed, all of them together
    num_workers: int
    num_errors: int  # requests that raised or were never answered
    error: str | None  # the first that was raised, in one line
    ended_early: str | None  # why
    defects: Sequence[str]  # why the run proves nothing
    seed: int


def serve(service: Service, protocol: Protocol, server: Server, seed: int, until_s: float = math.inf) -> Served:
    """Serves requests as `protocol` says, see docs/serving.md, and returns once its threads and processes have ended.

    `until_s` is when to end at the latest, of `time.perf_counter`. An exception of a worker is counted, except for one
    that says that memory is used up, which is raised, as is any exception of `service.prepare`.
    """
    raise NotImplementedError
