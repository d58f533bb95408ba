"""The columns of a cell that served requests; it also has `compute_ms`, as other cells do."""

from accelbench.presentation import significant
from accelbench.schema.record import Row
from accelbench.schema.serving import Serving

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9}
COLUMNS = [
    *("requests_per_s", "offered_per_s", "num_requests", "num_errors"),
    *(f"request_{name}_ms{end}" for name in PERCENTILES for end in ("", "_low", "_high")),
    *("miss_share", "miss_share_low", "miss_share_high", "verdict", "mean_batch", "padded_share", "busy_share"),
    *("queue_ms", "late_p99_ms", "energy_j_per_request", "cost_per_million_requests"),
]


def of_requests(serving: Serving) -> Row:
    """The columns that follow from the requests alone."""
    num_filled = sum(int(size) * num for size, num in serving.batches.items())
    num_batches, missed = sum(serving.batches.values()), serving.num_missed
    row: Row = {
        "requests_per_s": serving.served_per_s,
        "offered_per_s": serving.offered_per_s,
        "num_requests": serving.num_requests,
        "num_errors": serving.num_errors,
        "miss_share": None if missed is None else missed / serving.num_requests,
        "miss_share_low": serving.miss_share_low,
        "miss_share_high": serving.miss_share_high,
        "verdict": serving.verdict.value if serving.verdict else None,
        "mean_batch": num_filled / num_batches if num_batches else None,
        "padded_share": serving.num_padded / (num_filled + serving.num_padded) if num_filled else None,
        "busy_share": serving.busy_share,
        "queue_ms": _ms(serving.queue_s),
        "compute_ms": _ms(serving.compute_s),
        "late_p99_ms": _ms(serving.late_p99_s),
    }
    found = {each.percentile: each for each in serving.latencies}
    for name, percentile in PERCENTILES.items():
        if (each := found.get(percentile)) is not None:
            row |= {f"request_{name}_ms": _ms(each.seconds), f"request_{name}_ms_low": _ms(each.low)}
            row[f"request_{name}_ms_high"] = _ms(each.high)
    return row


def limit_text(row: Row) -> str:
    """What `protocol=server` promises, such as `p99 at most 50 ms`."""
    return f"p{row['limit_percentile']:g} at most {row['limit_ms']:g} ms"


def served_text(row: Row) -> str:
    """What a row says of requests, such as `50 requests/s, p99 23.1 ms, sure pass: p99 at most 50 ms`; may be empty."""
    rate, p99_ms = row["requests_per_s"], row["request_p99_ms"]
    words = [] if rate is None else [f"{significant(float(rate))} requests/s"]
    words += [] if p99_ms is None else [f"p99 {significant(float(p99_ms))} ms"]
    return ", ".join([*words, *([f"{row['verdict']}: {limit_text(row)}"] if row["verdict"] else [])])


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds
