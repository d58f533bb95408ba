"""Computes the columns of a cell that served requests. One of them, `compute_ms`, is also a column of other cells."""

from accelbench.presentation import significant
from accelbench.schema.measurement import Serving
from accelbench.schema.record import Row, with_bounds
from accelbench.schema.vocab import Verdict

# Column -> the attribute of `Serving` that it shows. If the column's name ends in `_ms`, the unit is milliseconds.
SAME = {
    "requests_per_s": "served_per_s",
    "offered_per_s": "offered_per_s",
    "num_requests": "num_requests",
    "num_errors": "num_errors",
    "miss_share_low": "miss_share_low",
    "miss_share_high": "miss_share_high",
    "busy_share": "busy_share",
    "queue_ms": "queue_s",
    "compute_ms": "compute_s",
    "late_p99_ms": "late_p99_s",
}
COLUMNS = [
    *(name for name in SAME if name != "compute_ms"),
    *(f"request_{name}_ms{end}" for name in ("p50", "p90", "p99", "p999") for end in ("", "_low", "_high")),
    "miss_share",
    "verdict",
    "mean_batch",
    "padded_share",
    "energy_j_per_request",
    "cost_per_million_requests",
]


def of_requests(serving: Serving) -> Row:
    """Returns the column `compute_ms`, and all `COLUMNS` except the energy and the cost of a request."""
    num_filled = sum(int(size) * num for size, num in serving.batches.items())
    num_batches = sum(serving.batches.values())
    missed = serving.num_missed
    row: Row = {name: _shown(name, getattr(serving, attribute)) for name, attribute in SAME.items()}
    row["miss_share"] = None if missed is None else missed / serving.num_requests
    row["verdict"] = serving.verdict.value if serving.verdict else None
    row["mean_batch"] = num_filled / num_batches if num_batches else None
    row["padded_share"] = serving.num_padded / (num_filled + serving.num_padded) if num_filled else None
    for quantile in serving.latencies:
        name = f"request_p{quantile.percentile:g}_ms".replace(".", "")
        bounds_ms = _shown(name, quantile.low), _shown(name, quantile.high)
        row |= with_bounds(name, _shown(name, quantile.seconds), bounds_ms)
    return row


def _shown(name: str, value: float | None) -> float | None:
    return 1000 * value if value is not None and name.endswith("_ms") else value


def limit_text(row: Row) -> str:
    """The limit of `protocol=server`, such as `p99 at most 50 ms`."""
    return f"p{row['limit_percentile']:g} at most {row['limit_ms']:g} ms"


def missed_text(row: Row) -> str:
    """The share of requests that missed the limit, such as `87 % of requests missed it`."""
    share = row["miss_share"] or 0.0
    return f"{significant(round(100 * share, 3), 2)} % of requests missed it"


def served_text(row: Row) -> str:
    """Returns the result of a cell in words, such as `50 requests/s, p99 23.1 ms, sure pass: p99 at most 50 ms`.

    `sure pass` is a value of `Verdict`. For a training to a target, the words say how the training ended. If the cell
    neither served requests nor trained to a target, the text is empty.
    """
    if row["target_reached"]:
        return f"target reached in {significant(row['target_s'])} s, {significant(row['target_epochs'])} epochs"
    if row["target_reached"] is not None:
        return f"target not reached in {significant(row['target_budget_s'])} s"
    words = []
    if row["requests_per_s"] is not None:
        words.append(f"{significant(row['requests_per_s'])} requests/s")
    if row["request_p99_ms"] is not None:
        words.append(f"p99 {significant(row['request_p99_ms'])} ms")
    if row["verdict"]:
        why = f" ({missed_text(row)})" if row["verdict"] == Verdict.unknown else ""
        words.append(f"{row['verdict']}: {limit_text(row)}{why}")
    return ", ".join(words)
