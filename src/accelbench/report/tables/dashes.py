"""Why a place in a table has no value: a dash, whose reason stands beneath the table."""

from collections.abc import Iterable

from accelbench.stats.robust import NUM_SAMPLES_FOR

_NOT_OK = "the cell did not run, or its numbers are not published (see its status)"
_NO_OTHER = "no other cell of this model was measured that differs in device, precision, engine or options"
_NO_INTERVAL = (
    f"whole epochs were measured, or fewer than {NUM_SAMPLES_FOR[50]} blocks, of which no interval is computed"
)
_NO_MEDIAN = (
    f"fewer than {NUM_SAMPLES_FOR[50]} steps were waited for one by one: steps are long, or whole epochs were measured"
)
_NOT_WAITED = "whole epochs were measured, in which steps are not waited for one by one"
_NOT_OURS = "no ok cell of ours has these settings"
_NOT_PUBLISHED = "the study has no such number"
_NOT_TRAINED = "only whole epochs (protocol=fit) have it"
_NO_GPU_COUNTER = "only NVIDIA GPUs have it, or a counter that the user may read"

# The heading of a column, or its beginning -> why a row may have no value there.
REASONS = {
    "± (%)": _NO_INTERVAL,
    "low": f"{_NOT_OK}; or {_NO_INTERVAL}",
    "high": f"{_NOT_OK}; or {_NO_INTERVAL}",
    "first: low": _NO_INTERVAL,
    "first: high": _NO_INTERVAL,
    "second: low": _NO_INTERVAL,
    "second: high": _NO_INTERVAL,
    "first:": _NOT_OURS,
    "second:": _NOT_OURS,
    "second": _NOT_OURS,
    "its samples/s": _NO_OTHER,
    "behind by": _NO_OTHER,
    "how sure": _NO_OTHER,
    "next best": _NO_OTHER,
    "least latency with": _NO_MEDIAN,
    "least": "not known of any cell",
    "p50 (ms)": _NO_MEDIAN,
    "latency p50 (ms)": f"{_NOT_OK}; or {_NO_MEDIAN}",
    "latency p90 (ms)": f"as p50, with {NUM_SAMPLES_FOR[90]} steps",
    "latency p99 (ms)": f"as p50, with {NUM_SAMPLES_FOR[99]} steps",
    "launch p50 (ms)": f"{_NOT_OK}; or {_NOT_WAITED}",
    "samples/s within": "no batch is within the limit",
    "best batch within": "no batch is within the limit",
    "samples/s": _NOT_OK,
    "tokens/s": "model.tokens names no function that counts tokens",
    "warnings": "none",
    "options": "none is on",
    "arguments": "it has none",
    "most frequent reason": "nothing is missing",
    "what it is": "it is not there",
    "reason or warnings": "the cell is ok, and has no warnings",
    "reason": "the cell is ok",
    "last line of the error": "there is no error text",
    "bound by": "operators are compiled or launched together, or their work is unknown",
    "threads": f"{_NOT_OK}; or XLA chooses their number",
    "first step (s)": _NOT_OK,
    "compile (s)": "nothing was compiled",
    "fit (s)": _NOT_TRAINED,
    "time (s)": f"{_NOT_OK}; or there is no data set whose size gives a time",
    "peak host (MB)": _NOT_OK,
    "peak device (MB)": f"{_NOT_OK}; or the device has no memory of its own",
    "data wait (%)": f"{_NOT_OK}; or batches are fetched inside the step",
    "of the ceiling (%)": f"{_NOT_OK}; or the work of a step could not be counted",
    "output error": "outputs were not compared (see the cell's warnings)",
    "CPU (%": _NOT_OK,
    "kernel (% of CPU time)": _NOT_OK,
    "page faults/s": f"{_NOT_OK}; or the machine has no /proc",
    "GPU": _NO_GPU_COUNTER,
    "J/sample": "there is no energy counter, and no power_w in params.yaml",
    "cost of a million": "params.yaml has no price for the device",
    "training loss": _NOT_TRAINED,
    "training accuracy (%)": _NOT_TRAINED,
    "test loss": _NOT_TRAINED,
    "test accuracy (%)": f"{_NOT_TRAINED}; an autoencoder has none",
    "accuracy (%)": f"{_NOT_TRAINED}; an autoencoder has none",
    "copying (x)": "a device that shares the host's memory copies nothing",
    "batch": "the study's speed-up is not of one batch",
    "ours: one evaluation (s)": _NOT_TRAINED,
    "ours": _NOT_OURS,
    "utilisation (%)": _NO_GPU_COUNTER,
    "power (W)": _NO_GPU_COUNTER,
    "temperature (°C)": _NO_GPU_COUNTER,
    "clock (MHz)": _NO_GPU_COUNTER,
    "published": _NOT_PUBLISHED,
    "from its raw data": _NOT_PUBLISHED,
    "alone (x)": "no pair of cells with this option alone and without any was measured",
    "with others (x)": "no pair of cells with this option and without it was measured beside others",
    "others": "the option was measured alone",
    "pays after (steps)": "the option does not make a step faster",
    "over plain": _NOT_OURS,
    "speed-up": _NOT_OURS,
    "ratio (x)": _NOT_OURS,
}


def reason(heading: str) -> str | None:
    """Why the column `heading` may have no value; None if nothing is said about it."""
    beginnings = [known for known in REASONS if heading.startswith(known)]
    return REASONS[max(beginnings, key=len)] if beginnings else None


def note(headings: Iterable[str]) -> str:
    """A sentence on why these columns have no value in some rows; empty if nothing is said about them."""
    columns: dict[str, list[str]] = {}
    for heading in dict.fromkeys(headings):
        if (why := reason(heading)) is not None:
            columns.setdefault(why, []).append(heading)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in columns.items()) + "." * bool(columns)
