"""What engines share: the base class of runs, words of networks, optimisers and precisions."""

import threading
from pathlib import Path

import numpy as np
import pytest

from accelbench.engines import images
from accelbench.engines.cell_run import BaseBackend, CellRun
from accelbench.engines.networks import layers_of
from accelbench.errors import UnknownChoiceError, UnsupportedError, UserError
from accelbench.judging.verdict import judge
from accelbench.measuring.checks import FORMATS, NOT_IN_TIME, ObservedOutput, word_for
from accelbench.schema.cell import (
    SHAPES,
    DataSpec,
    Mode,
    ModelSpec,
    Pipeline,
    Precision,
    Protocol,
    Weights,
)
from accelbench.schema.measurement import Observed
from engines.cells import RANDOM
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


def test_what_can_not_be_had_is_refused():
    with pytest.raises(UnknownChoiceError, match=r"adagrad: .*adam, sgd"):
        images.optimizer_named("adagrad", {"adam": 1, "sgd": 1})
    with pytest.raises(UnknownChoiceError, match=r"model=vgg: .*from: mlp"):
        layers_of(ModelSpec(name="vgg"), (28, 28), 10, {})
    with pytest.raises(UserError, match=r"model.args: .*'widht'"):
        layers_of(ModelSpec(name="mlp", args={"widht": 3}), (28, 28), 10, {})
    with pytest.raises(UserError, match=r"model.weights=pretrained: mlp has no trained weights"):
        layers_of(ModelSpec(name="mlp", weights=Weights.pretrained), (28, 28), 10, {})
    with pytest.raises(UnsupportedError, match="^protocol=fit: random images have no epochs: use protocol=window or s"):
        CellRun(make_cell(data=RANDOM, protocol=Protocol.fit), Path(), BaseBackend())


@pytest.mark.parametrize(
    ("model", "shape", "message"),
    [
        ("rnn", (3, 28, 20), "model=rnn accepts images in grey, not 3 x 28 x 20: use data=mnist"),
        ("cnn", (24, 23), "model=cnn accepts images of at least 24 x 24 pixels, not 24 x 23: use data=mnist"),
        ("pets_cnn", (28, 28), "in colour of at least 22 x 22 pixels, not 28 x 28: use data=cats_vs_dogs"),
        ("scaling_cnn", (3, 4, 4), "at least 8 x 8 pixels, not 3 x 4 x 4: use data=random"),
    ],
)
def test_images_that_a_network_does_not_take_are_told_with_data_that_it_does(model, shape, message):
    spec = ModelSpec(name=model)
    with pytest.raises(UnsupportedError, match=message):
        images.check_fits(spec, shape)
    assert images.why_unfit(spec, shape, "random").endswith("use another model.input_shape")
    assert images.why_unfit(spec, SHAPES.get(images.TAKES[model].data, (3, 64, 64))) is None


def test_a_precision_is_recognised_by_its_formats_and_others_are_described():
    for precision in Precision:
        assert word_for(*FORMATS[precision], tf32=precision == Precision.tf32) == precision
    assert word_for("float64", "float32", tf32=False) == "weights float64, computed in float32"
    assert word_for("float32", "bfloat16", tf32=True) == Precision.bf16_mixed  # only fp32 can be tf32
