"""An engine that sleeps for each batch and computes nothing."""

import time

from accelbench.data.arrays import load_split
from accelbench.engines.cell_run import BaseBackend, CellRun, Observed
from accelbench.engines.images import order_of
from accelbench.measuring.clock import Step


class SleepStep(Step):
    """A step on one batch of the feed."""

    def __init__(self, order):
        self.batches = iter(order)

    def fetch(self):
        return next(self.batches)

    def copy_in(self, batch):
        return batch

    def compute(self, batch):
        time.sleep(0.010)

    def num_samples(self, batch):
        return len(batch)


class SleepRun(CellRun):
    """The run of a cell on the batches of its data set, in order."""

    build_s, num_params = 0.0, 0

    def run_steps(self):
        train, test = (len(load_split(self.data_folder, split).labels) for split in ("train", "test"))
        self.feed = order_of(self.cell, *(("train", train) if self.trains else ("test", test)), last="keep")
        self.test_feed = order_of(self.cell, "test", test, last="keep")
        super().run_steps()

    def new_step(self):
        return SleepStep(self.feed)

    def new_test_step(self):
        return SleepStep(self.test_feed)

    def outcome(self, step, num_samples):
        return 0.0, None

    def observe(self):
        return Observed(device="cpu", device_name="", precision=self.cell.precision, num_devices=1, threads=1)


def run(cell, data_folder):
    """Measures a cell. A host calls this function in a new process."""
    return SleepRun(cell, data_folder, BaseBackend()).measure()
