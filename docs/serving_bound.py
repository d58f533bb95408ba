"""Draws images/serving-bound.svg, and prints its numbers: how often two rules pass a server at its limit."""

import math
from pathlib import Path

import numpy as np
from scipy.special import betainc

from accelbench.schema.cell import Verdict
from accelbench.stats.request_latencies import RISK, Run, verdict

OUT = Path(__file__).parent / "images" / "serving-bound.svg"
RUNS, BEFORE = 1_000, 20_000  # BEFORE: requests that fill the queue as usual, and are not judged
# Load -> the 99th percentile with a constant service time of 1 (Franx, Operations Research Letters 29, 2001).
CONSTANT = {0.3: 2.8909, 0.5: 4.3363, 0.7: 7.4855, 0.8: 11.3559, 0.9: 22.8982, 0.95: 45.9378}
PLACES = {load: round(70 + 613 * (load - 0.25), 1) for load in CONSTANT}
COLOURS = {"M/M/1": "#0072b2", "M/D/1": "#d55e00"}
RULES = {"LoadGen, 459 requests": "", "LoadGen, 10,000": "7 4", "accelbench, 10,000": "2 3"}  # -> the line's dashes
SIZE = 'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 400" font-family="sans-serif" font-size="14"'
HEAD = f'{SIZE} fill="#1d2329" role="img"'
LABEL = "LoadGen's rule passes a server at its limit in most runs of a busy queue, accelbench's in at most 1 %"


def loadgen_passes(num: int, num_missed: int, percentile: float) -> bool:
    """Applies MLPerf's rule, which treats misses as independent: LoadGen's `early_stopping.cc`, without a tolerance."""
    return num > num_missed and bool(betainc(num - num_missed, num_missed + 1, percentile / 100) < RISK)


def passed(queue: str, load: float) -> list[float]:
    """Returns the share of runs that pass each rule, if the limit is the true 99th percentile."""
    rng = np.random.default_rng(0)
    counts = [0, 0, 0]
    limit = CONSTANT[load] if queue == "M/D/1" else math.log(100) / (1 - load)
    for _ in range(RUNS):
        due = rng.exponential(1 / load, BEFORE + 10_000).cumsum()
        work = np.ones(len(due)) if queue == "M/D/1" else rng.exponential(size=len(due))
        worked = work.cumsum()
        done = worked + np.maximum.accumulate(due - (worked - work))  # Lindley's recursion
        due, done = due[BEFORE:], done[BEFORE:]
        for i, num in enumerate((459, 10_000)):
            counts[i] += loadgen_passes(num, int(np.count_nonzero((done - due)[:num] > limit)), 99)
        run = Run((due * 1e9).astype(np.int64), (done * 1e9).astype(np.int64))
        counts[2] += verdict(run.misses(limit * 1e9), 99) == Verdict.passes
    return [count / RUNS for count in counts]


def main() -> None:  # noqa: D103
    parts = ['<rect width="760" height="400" fill="#fff"/>', '<g text-anchor="middle">']
    parts += [f'<text x="38" y="{345 - 3 * share}">{share} %</text>' for share in range(0, 101, 25)]
    parts += [f'<text x="{x}" y="362">{load:g}</text>' for load, x in PLACES.items()]
    parts += ['<text x="300" y="388">load: work that arrives over work that can be done</text></g>']
    parts += [f'<path d="M70 {340 - 3 * share}H530" stroke="#d8dee4"/>' for share in range(0, 101, 25)]
    parts += ['<text x="14" y="22">runs that pass, of a server exactly at its limit: 1 % should</text>']
    for top, (queue, colour) in zip((60, 160), COLOURS.items(), strict=True):
        shares = {load: passed(queue, load) for load in CONSTANT}
        print(queue, shares, flush=True)
        parts.append(f'<text x="545" y="{top - 18}" font-weight="bold">{queue}</text>')
        for i, (rule, dashes) in enumerate(RULES.items()):
            line = "L".join(f"{PLACES[load]} {340 - 300 * share[i]:.1f}" for load, share in shares.items())
            style = f'fill="none" stroke="{colour}" stroke-width="2.5" stroke-dasharray="{dashes}"'
            parts += [f'<path {style} d="M{line}"/>', f'<path {style} d="M545 {top + 24 * i}h34"/>']
            parts.append(f'<text x="586" y="{top + 24 * i + 5}">{rule}</text>')
    OUT.write_text("\n".join([f'<svg {HEAD} aria-label="{LABEL}">', *parts, "</svg>"]) + "\n")


if __name__ == "__main__":
    main()
