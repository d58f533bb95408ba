"""Records of cells beside other load: as the sampler wrote them, beside one busy process on two cores and elsewhere."""

import fakes
from accelbench.schema.measurement import Block, SystemSeries
from fakes import make_measurement

# Percent, 100 for one core or one waiting thread.
OTHERS, OWN = "other_cpu_utilization_percent", "cpu_utilization_percent"
WAITING, STEAL = "waiting_percent", "steal_percent"
BUSY = {OTHERS: [120, 118, 125], OWN: [80, 79, 83], WAITING: [120, 121, 118], STEAL: [0, 0, 0]}
REASON = "others used 1.2 of 2 cores"
MACHINE = {"cpu_name": "a CPU", "num_threads": 2}


def series(values, num_cores=2):
    """Three samples in the steady state, one before it with the opposite load, and one after it."""
    apart = {name: 0.0 if name == OTHERS and values[OTHERS][1] > 50 else 300.0 for name in values}
    whole = {name: [apart[name], *given, apart[name]] for name, given in values.items()}
    return SystemSeries(started_boot_s=100.0, t_s=[0.5, 1.1, 1.4, 1.7, 2.5], values=whole, num_cores=num_cores)


def make_record(values=BUSY, *, cell=None, num_cores=2, environment=None, rate=3200.0, **changes):
    """An ok record of 8 blocks at this rate, whose steady state lasts from second 1 to 2 of its process."""
    blocks = [Block(num_steps=10, num_samples=320, seconds=320 / rate)] * 8
    measured = make_measurement(blocks=blocks, steady_boot_s=(101.0, 102.0), **changes)
    system = None if values is None else series(values, num_cores)
    machine = {"machine": MACHINE, **(environment or {})}
    return fakes.make_record(cell, environment=machine, measurement=measured, system=system)


def quiet(values=BUSY):
    return {name: [0.5] * len(given) if name != OWN else [190.0] * len(given) for name, given in values.items()}
