"""What engines share: the base class of runs, words of networks, optimisers and precisions, and ends of trainings."""

import threading
from pathlib import Path

import numpy as np
import pytest

from accelbench.data.order import Order, parts_of
from accelbench.engines import images
from accelbench.engines.cell_run import BaseBackend, CellRun
from accelbench.engines.goal import GoalRun, ends_of
from accelbench.engines.networks import layers_of
from accelbench.errors import UnknownChoiceError, UnsupportedError, UserError
from accelbench.judging.verdict import judge
from accelbench.measuring.checks import FORMATS, NOT_IN_TIME, ObservedOutput, word_for
from accelbench.schema.cell import (
    SHAPES,
    DataSpec,
    Definition,
    Mode,
    ModelSpec,
    Pipeline,
    Precision,
    Protocol,
    Target,
    Weights,
)
from accelbench.schema.measurement import Observed
from engines.cells import RANDOM, cell_to_goal
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


# When a training to a target is evaluated, and when it ends.


@pytest.mark.parametrize(
    ("settings", "ends"),
    [
        ({}, [10, 20, 30]),
        ({"every": 0.25}, [2, 5, 8, 10, 12, 15, 18, 20, 22, 25, 28, 30]),
        ({"every": 0.01}, list(range(1, 31))),
        ({"every": 2.0}, [20, 30]),
        ({"every": 9.0}, [30]),
        ({"every_steps": 12}, [12, 24, 30]),
        ({"definition": Definition.fixed}, [30]),
    ],
)
def test_it_is_evaluated_as_often_as_asked_and_at_the_end_or_after_a_call_of_several_steps(settings, ends):
    assert list(ends_of(Target(accuracy=0.9, **settings), 3, 10)) == ends
    assert list(ends_of(Target(accuracy=0.9, every_steps=8), 2, 5, in_call=4)) == [2, 4, 6, 8, 10]


@pytest.mark.parametrize(
    ("settings", "values", "hit", "stayed", "num_evaluations"),
    [
        ({}, [0.5, 0.9, 0.95, 1.0], 1, True, 3),
        ({}, [0.5, 0.9, 0.85, 1.0], 1, False, 3),
        ({}, [0.5, 0.6, 0.7, 0.95], 3, None, 4),
        ({}, [0.5, 0.6, 0.7, 0.8], None, None, 4),
        ({}, [0.5, None, 0.9, 0.9], None, None, 2),
        ({"definition": Definition.fixed}, [0.95], 0, None, 1),
        ({"definition": Definition.fixed}, [0.85], None, None, 1),
        ({"metric": "loss", "accuracy": None, "value": 0.2}, [0.5, 0.19, 0.21], 1, False, 3),
    ],
)
def test_it_ends_after_the_evaluation_that_follows_the_hit(settings, values, hit, stayed, num_evaluations):
    run = GoalRun(cell_to_goal(epochs=4, target=settings))
    run.plan(Order(100, 32, last="keep"))  # 4 steps in an epoch
    num_steps = 0
    while not run.is_over:
        num_steps += len(list(run.interval_of(iter(range(1000)))))
        run.evaluated(values[len(run.training.evaluations)])
    assert num_steps == (16 if len(values) == 1 else 4 * num_evaluations)
    assert (run.training.hit, run.training.stayed, len(run.training.evaluations)) == (hit, stayed, num_evaluations)


def test_samples_and_epochs_of_parts_of_an_epoch():
    run = GoalRun(cell_to_goal(epochs=2, target={"every": 0.5}))
    run.plan(Order(100, 32, last="keep"))
    for _ in range(2):
        assert len(list(run.interval_of(iter(range(1000))))) == 2
        run.evaluated(0.1)
    evaluations = [(each.num_steps, each.num_samples, each.epochs) for each in run.training.evaluations]
    assert evaluations == [(2, 64, 0.64), (4, 100, 1.0)]


def test_the_split_is_disjoint_and_depends_on_the_data_alone():
    train, held_out = parts_of(1000, 0.1)
    assert len(held_out) == 100
    assert sorted([*train, *held_out]) == list(range(1000))
    assert held_out.mean() > 149.5  # drawn from the whole set, not from its start
    orders = [Order(900, 32, shuffle=True, seed=seed, last="keep", among=train) for seed in (0, 1)]
    first, second = (list(next(order.epochs())) for order in orders)
    assert sorted(first) == sorted(second) == list(train)
    assert first != second
    for share, num in ((0.004, 0), (0.999, 100)):
        with pytest.raises(UnsupportedError, match=rf"target.validation={share:g}: holds out {num} of 100 tra"):
            parts_of(100, share)


@pytest.mark.parametrize("devices", [1, 2])
def test_out_of_time_one_device_stops_after_a_step_and_several_after_an_evaluation(devices):
    run = GoalRun(cell_to_goal(devices=devices), until_s=0.0)
    run.plan(Order(100, 32, last="keep"))
    assert len(list(run.interval_of(iter(range(9))))) == (1 if devices == 1 else 4)
    assert run.is_cut == (devices == 1)
    assert run.is_late()
    run.evaluated(0.5)
    assert run.is_over
