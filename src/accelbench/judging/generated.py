"""Turns the raw times of generated tokens into the columns of a cell."""

from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Generation
from accelbench.schema.record import Row, with_bounds
from accelbench.stats.order_statistics import NUM_SAMPLES_FOR, Sample

MB = 1e6  # bytes
COLUMNS = [
    "ttft_ms",
    "ttft_ms_low",
    "ttft_ms_high",
    "tpot_p50_ms",
    "tpot_p90_ms",
    "tpot_p99_ms",
    "decode_tokens_per_s",
    "decode_tokens_per_s_low",
    "decode_tokens_per_s_high",
    "kv_cache_mb",
]


def of_generation(cell: Cell, measured: Generation) -> Row:
    """Returns the columns of generated text. Medians are computed over generations, percentiles over decode steps."""
    # Steps of one generation resemble each other. An interval over steps would be too narrow.
    first_ms = Sample([1000 * seconds for seconds in measured.prefill_s])
    steps = Sample([1000 * seconds for generation in measured.decode_s for seconds in generation])
    has_enough = len(measured.decode_s) >= NUM_SAMPLES_FOR[50]
    rates = Sample([cell.batch_size * len(steps_s) / sum(steps_s) for steps_s in measured.decode_s])
    row: Row = {f"tpot_p{p}_ms": steps.supported_percentile(p) if has_enough else None for p in (50, 90, 99)}
    for column, sample in (("ttft_ms", first_ms), ("decode_tokens_per_s", rates)):
        row |= with_bounds(column, sample.median, sample.percentile_interval(50))
    return row | {"kv_cache_mb": measured.cache_bytes / MB}
