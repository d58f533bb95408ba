"""What requests cost on this machine without a model: found once, and kept beside the ceilings of its devices."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelbench.errors import RefusedError
from accelbench.schema.ceilings import keep_of_machine, kept_of_machine
from accelbench.schema.cell import Server
from accelbench.schema.ranges import Rate, Seconds
from accelbench.schema.serialize import load_if_fits
from accelbench.schema.vocab import Protocol
from accelbench.serving.server import MAX_LATE, Service, serve

ENTRY = "requests"
FIRST_RATE = 1000.0  # requests per second
LEAST, LEAST_S = 500, 0.2  # requests, and seconds, of each rate
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
    """What is known or else, or `again`, found in some quiet seconds; None if no process starts, as a cell will say."""
    found = None if again else known(root, environment)
    with contextlib.suppress(OSError, RefusedError, RuntimeError):  # the next one measures it again
        if found is None or found.rate is None:
            found = measured()
            keep_of_machine(root, environment, ENTRY, found)
    return found


def measured() -> Null:
    """Measures it, without a file."""
    rate, best, (latencies_s, is_on_time) = FIRST_RATE, None, _latencies_s(FIRST_RATE)
    p50_s, p99_s = np.percentile(latencies_s, [50, 99])
    while is_on_time:  # some rate is too high for any machine
        rate, best = 2 * rate, rate
        is_on_time = _latencies_s(rate)[1]
    return Null(p50_s=float(p50_s), p99_s=float(p99_s), rate=best)


def _latencies_s(rate: float) -> tuple[NDArray[np.float64], bool]:
    """Of each request at this rate; and whether they were issued on time, and answered within the limit."""
    service = Service(pool=[None], join=tuple, workers=[lambda batch: None])
    server = Server(rate=rate, latency_ms=LATE_MS / MAX_LATE, duration_s=max(LEAST_S, LEAST / rate))
    for seed in range(TRIES):
        served = serve(service, Protocol.server, server, seed)
        latencies_s = (served.done - served.due) / 1e9
        is_invalid = bool(served.defects or served.ended_early)
        if is_on_time := not is_invalid and bool(np.percentile(latencies_s, 99) * 1e3 <= server.latency_ms):
            break
    return latencies_s, is_on_time
