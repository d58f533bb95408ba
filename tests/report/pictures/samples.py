"""Records of cells whose work was counted, on a device whose ceilings are known."""

import dataclasses

from accelbench.schema.measurement import Breakdown, Work
from accelbench.schema.vocab import Mode
from fakes import make_ceilings

PHASES = {"data_wait": [1e-3] * 4, "forward": [6e-3] * 4, "backward": [2e-3] * 4, "framework": [1e-3] * 4}


def working(maker, model, precision="fp32", mode=Mode.infer, **changes):
    changes = {
        "work": Work(flops=128 * 10**8, bytes=128 * 10**6, num_operators=9),
        "breakdown": Breakdown(phases_s=PHASES, undisturbed_s=[9.9e-3] * 4),
        **changes,
    }
    made = maker.ok(maker.cell(model, precision=precision, mode=mode), 500.0, **changes)
    rates = {"fp32": 1e11, "bf16": 4e11}
    ceilings = make_ceilings(flops_per_s=rates, how=dict.fromkeys(rates, "matmul"), memory_bytes_per_s=1e10)
    return dataclasses.replace(made, environment={**made.environment, "ceilings": ceilings.to_json()})
