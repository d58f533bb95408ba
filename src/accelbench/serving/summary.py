"""Summarises the raw times of requests for a record, and writes all of them to a file."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Quantile, Serving
from accelbench.schema.serialize import sha256_of, writing
from accelbench.schema.vocab import Protocol, Verdict
from accelbench.serving.batcher import TIME_LIMIT, Times
from accelbench.serving.server import LATE, Served
from accelbench.stats.order_statistics import Sample
from accelbench.stats.request_latencies import Bound, Run, num_requests_for, verdict

PERCENTILES = (50.0, 90.0, 99.0, 99.9)
ROWS = ("due", "issued", "dispatched", "done")  # rows of the file, in ns of one clock; -1: did not happen, or unknown


def summarised(served: Served, cell: Cell) -> Serving:
    """Summarises the requests of `cell` for its record.

    With `protocol=server`, slow answers come in clusters. So `stats.request_latencies` computes the bounds of each
    percentile, and decides whether the latency limit was met. If queries follow one another,
    `Sample.percentile_interval` computes the bounds. With `protocol=offline`, there are no latencies, because all
    requests are due at once.
    """
    due = served.due
    done = served.done
    dispatched = served.dispatched
    answered = done >= 0
    is_server = cell.protocol == Protocol.server
    span_s = _s(int(due[-1] - due[0]))
    duration_s = max(_s(int(max(done.max(), served.issued.max(), due[-1]) - due[0])), 1e-9)
    late_ns = np.maximum(0, served.issued - due)[served.issued >= 0] if is_server else due[:0]
    quantiles: Callable[[float], tuple[Bound, Bound, Bound]] = partial(_of_queries, served)
    judged = dict[str, Any]()
    if is_server:
        run = Run(due, done)
        misses = run.misses(round(cell.server.latency_ms * 1e6))
        quantiles = run.bounds
        word = verdict(misses, cell.server.percentile)
        if served.ended_early == TIME_LIMIT:
            word = Verdict.unknown
        judged = {"verdict": word, "num_missed": misses.num_missed, "design_effect": misses.effect}
        judged |= {"miss_share_low": misses.low, "miss_share_high": misses.high}
    percents = sorted({*PERCENTILES, cell.server.percentile}) if cell.protocol != Protocol.offline else ()
    latencies = []
    for percent in percents:
        seconds, low, high = (None if ns is None else _s(ns) for ns in quantiles(percent))
        latencies.append(Quantile(percentile=percent, seconds=seconds, low=low, high=high))
    return Serving(
        seed=served.seed,
        num_requests=len(due),
        num_errors=served.num_errors,
        error=served.error,
        duration_s=duration_s,
        offered_per_s=(len(due) - 1) / span_s if is_server and span_s else len(due) / duration_s,
        served_per_s=int(answered.sum()) / duration_s,
        latencies=latencies,
        ended_early=served.ended_early,
        batches={str(size): num for size, num in sorted(served.batches.items())},
        num_padded=served.num_padded,
        queue_s=_s(float((dispatched - due)[answered].mean())) if answered.any() else None,
        compute_s=_s(float((done - dispatched)[answered].mean())) if answered.any() else None,
        busy_share=min(1.0, _s(served.busy_ns) / duration_s / max(1, served.num_workers)),
        late_p99_s=_s(float(np.percentile(late_ns, 99))) if len(late_ns) else None,
        is_late=any(defect.startswith(LATE) for defect in served.defects),
        **judged,
    )


def write_times(rows: Sequence[Times], path: Path) -> str:
    """Writes the rows `ROWS` into a .npy file of int64 with the shape (4, requests). Returns the sha256 of the file.

    If writing raises OSError, a file that was at `path` before stays unchanged.
    """
    with writing(path) as written:
        with written.open("wb") as file:
            np.save(file, np.stack(rows), allow_pickle=False)
        return sha256_of(written)


def _of_queries(served: Served, percent: float) -> tuple[Bound, Bound, Bound]:
    """Returns a percentile of the latencies of successive queries, and the bounds of its interval, in ns.

    Returns None for all three values if there are too few queries, or if a query failed.
    """
    if len(served.done) < num_requests_for(percent) or (served.done < 0).any():
        return None, None, None
    sample = Sample((served.done - served.due).astype(np.float64))
    low, high = sample.percentile_interval(percent) or (None, None)
    return sample.percentile(percent), low, high


def _s(ns: float) -> float:
    return ns / 1e9
