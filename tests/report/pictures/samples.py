"""Records of cells whose work was counted, on a device whose ceilings are known, and of cells that served requests."""

import dataclasses

from accelbench.schema.cell import Mode, Protocol, Server
from accelbench.schema.measurement import Breakdown, Quantile, Work
from accelbench.schema.serialize import plain
from accelbench.stats.request_latencies import CAREFUL, Misses, share_bounds, verdict
from fakes import make_ceilings, make_serving

PHASES = {"data_wait": [1e-3] * 4, "forward": [6e-3] * 4, "backward": [2e-3] * 4, "framework": [1e-3] * 4}


def working(maker, model, precision="fp32", mode=Mode.infer, **changes):
    changes = {
        "work": Work(flops=128 * 10**8, bytes=128 * 10**6, num_operators=9),
        "breakdown": Breakdown(phases_s=PHASES, undisturbed_s=[9.9e-3] * 4),
        **changes,
    }
    made = maker.ok(maker.cell(model, precision=precision, mode=mode), 500.0, **changes)
    rates = {"fp32": 1e11, "bf16": 4e11}
    ceilings = make_ceilings(flops_per_s=rates, memory_bytes_per_s=1e10)
    return dataclasses.replace(made, environment={**made.environment, "ceilings": plain(ceilings)})


def serving(maker, rate, p99_ms, *, model="cnn", max_batch=8, seed=0):
    """A record of requests at a rate, whose p99 may be at most 50 ms, with misses as in an M/M/1 queue."""
    settings = {"mode": Mode.infer, "protocol": Protocol.server, "batch_size": max_batch, "seed": seed}
    cell = maker.cell(model, server=Server(rate=rate), **settings)
    num, share = round(20 * rate), 0.01 ** (50 / p99_ms)
    low, high = share_bounds(share, num, CAREFUL)
    misses = Misses(num_missed=round(share * num), effect=1.0, low=low, high=high)
    parts = {50.0: 0.25, 90.0: 0.5, 99.0: 1.0, 99.9: 2.0}
    known = {"num_missed": misses.num_missed, "design_effect": 1.0, "verdict": verdict(misses, 99), "busy_share": 0.625}
    known["latencies"] = [Quantile(percentile=p, seconds=part * p99_ms / 1e3) for p, part in parts.items()]
    served = make_serving(cell, seed=seed, duration_s=20.0, num_requests=num, **known)
    return maker.ok(cell, rate, data=None, serving=served, blocks=[], latency_s=[])


def served(maker, model="cnn"):
    """Records of two settings of a network: a search's probes."""
    fast = [(100, 20), (200, 52), (200, 40), (220, 49), (240, 900)]  # passes, can't tell, passes, can't tell, fails
    slow = [(50, 30), (100, 80)]  # passes, fails
    records = [serving(maker, *each, model=model, seed=seed) for seed, each in enumerate(fast)]
    return records + [serving(maker, *each, model=model, max_batch=1, seed=9) for each in slow]
