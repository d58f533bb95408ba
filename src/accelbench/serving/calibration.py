"""What requests cost on this machine without a model: found once, and kept beside the ceilings of its devices."""

import contextlib
import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from accelbench.errors import RefusedError
from accelbench.schema.ceilings import keep_of_machine, kept_of_machine
from accelbench.schema.cell import Server
from accelbench.schema.ranges import Rate, Seconds
from accelbench.schema.serialize import load_if_fits
from accelbench.schema.vocab import Protocol
from accelbench.serving.server import Served, Service, serve

ENTRY = "requests"
FIRST_RATE = 1000.0  # requests per second
EACH_S, MAX_S = 0.5, 2.0
LATE_MS = 0.5  # that 99 % of the requests may be late
TRIES = 2  # of a rate: the machine is interrupted at times


@dataclass(frozen=True, kw_only=True)
class Null:
    """Requests to a model that answers at once: latencies at 1,000 per second, and the most that are on time."""

    p50_s: Seconds
    p99_s: Seconds
    rate: Rate | None  # per second, doubled from 1,000; at most .5 ms late at p99; None if 1,000 are later


def known(root: Path, environment: Mapping[str, Any]) -> Null | None:
    """What `root`/ceilings.json has of this machine; see `read_ceilings` for `environment`."""
    return load_if_fits(Null, kept_of_machine(root, environment).get(ENTRY))


def null(root: Path, environment: Mapping[str, Any], *, again: bool = False) -> Null | None:
    """What is known, or else, or `again`, what is found in some seconds, for which the machine should be quiet.

    None if no process can be started: a cell that serves requests will say why.
    """
    found = None if again else known(root, environment)
    with contextlib.suppress(OSError, RefusedError, RuntimeError):  # the next one measures it again
        if found is None or found.rate is None:
            found = measured()
            keep_of_machine(root, environment, ENTRY, dataclasses.asdict(found))
    return found


def measured() -> Null:
    """Measures it, without a file."""
    end_s, first, rate = time.perf_counter() + MAX_S, _serve(FIRST_RATE), FIRST_RATE
    best, served = None, first
    while not (served.defects or served.ended_early):
        best = rate
        if time.perf_counter() >= end_s:
            break
        rate *= 2
        served = _serve(rate)
    p50_s, p99_s = np.percentile(first.done - first.due, [50, 99]) / 1e9
    return Null(p50_s=float(p50_s), p99_s=float(p99_s), rate=best)


def _serve(rate: float) -> Served:
    service = Service(pool=[None], join=tuple, workers=[lambda batch: None])
    for seed in range(TRIES):
        served = serve(service, Protocol.server, Server(rate=rate, latency_ms=100 * LATE_MS, duration_s=EACH_S), seed)
        if not served.defects:
            break
    return served
