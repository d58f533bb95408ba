"""The base class of runs, with an engine that computes nothing and records its calls."""

import threading

import numpy as np
import pytest

from accelbench.engines.cell_run import BaseBackend
from accelbench.judging.verdict import judge
from accelbench.measuring.checks import NOT_IN_TIME, ObservedOutput
from accelbench.schema.cell import DataSpec, Mode, Pipeline, Precision
from accelbench.schema.measurement import Observed
from engines.sleep.engine import SleepRun
from fakes import make_cell


class Accelerator(BaseBackend):
    on_host = False

    def __init__(self, log):
        self.log = log

    def peak_memory_bytes(self):
        self.log.append("memory")
        return 7

    def fallbacks(self):
        return ["aten::nonzero"]


class Run(SleepRun):
    def __init__(self, folder, **changes):
        self.log = []
        super().__init__(make_cell(**changes), folder, BaseBackend())

    def observe(self):
        if not self.trains:
            self.keep_output()
        return Observed(device="cpu", device_name="none", precision=self.cell.precision, num_devices=1, threads=1)

    def observe_output(self):
        self.log.append("output")
        return ObservedOutput(2.0, [np.full((32, 10), 2.5)], fed=1.0)

    def new_network(self, state, precision):
        rounded = 1.25 if precision == Precision.bf16 else 1.0  # rounding may add up in a deep network
        return lambda batch, seed: [np.full((32, 10), batch * rounded)]

    def warnings(self):
        yield "the engine's"


@pytest.mark.parametrize(
    ("on_host", "inside", "mode", "pipeline", "kept"),
    [
        (True, False, Mode.infer, Pipeline.array, {"data_s"}),
        (True, False, Mode.train, Pipeline.array, {"data_s"}),
        (False, False, Mode.infer, Pipeline.array, {"data_s", "copy_in_s", "copy_out_s"}),
        (False, False, Mode.train, Pipeline.array, {"data_s", "copy_in_s"}),
        (False, False, Mode.infer, Pipeline.device, {"data_s", "copy_out_s"}),
        (False, True, Mode.infer, Pipeline.array, {"copy_out_s"}),
    ],
)
def test_only_what_is_done_has_times(digits, monkeypatch, on_host, inside, mode, pipeline, kept):
    monkeypatch.setattr(Run, "fetches_inside", inside)
    run = Run(digits, mode=mode, data=DataSpec(name="mnist", pipeline=pipeline))
    run.backend = BaseBackend() if on_host else Accelerator([])
    run.run_steps()
    assert {name for name in ("data_s", "copy_in_s", "copy_out_s") if getattr(run.timing, name)} == kept


def test_warnings_are_the_engines_and_then_the_templates_and_memory_is_noted_before_the_output(digits):
    run = Run(digits, precision=Precision.bf16)
    run.backend = Accelerator(run.log)
    run.run_steps()
    run.timing.compiled_in_steady_state = 3
    run.run_steps = lambda: None
    measured = run.measure()
    assert measured.warnings == [
        "the engine's",
        "compiled 3 times in the steady state",
        "ran on the CPU instead: aten::nonzero",
        "the output differs by 25.0 % from the output in fp32 on the CPU",
    ]
    assert measured.peak_device_bytes == 7
    assert run.log[:2] == ["memory", "output"]


def test_a_reference_that_takes_too_long_leaves_the_measurement_as_it_is(digits, monkeypatch):
    never = threading.Event()
    monkeypatch.setattr(Run, "new_network", lambda run, state, precision: never.wait(60))
    run = Run(digits, precision=Precision.bf16, timeout_s=0.5)
    measured = run.measure()
    never.set()
    assert (judge(run.cell, measured), measured.output_error) == (None, None)
    assert measured.warnings == ["the engine's"]
    assert any(NOT_IN_TIME in note for note in measured.notes)
    assert measured.blocks
