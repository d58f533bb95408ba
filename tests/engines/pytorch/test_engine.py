"""The engine, compared with hand-written loops, on the CPU in this process."""

import contextlib
import dataclasses
import json
from functools import partial

import pytest
import torch
from torch.nn import functional

from accelbench.data.arrays import load_split
from accelbench.data.order import Order
from accelbench.devices.cpu import usable_cores
from accelbench.engines.pytorch import engine, module, zoo
from accelbench.engines.pytorch.feed import ArrayFeed
from accelbench.engines.pytorch.precision import DTYPES, MIXED, step_context
from accelbench.judging.verdict import judge
from accelbench.measuring.clock import NUM_INFER_EPOCHS
from accelbench.schema.cell import ModelSpec, Server
from accelbench.schema.measurement import Measurement
from accelbench.schema.serialize import load
from accelbench.schema.vocab import NOT_QUANTIZED, STEP_MODES, Device, Mode, Precision, Protocol, Status
from fakes import TESTS, assert_epochs_in_turn, make_cell
from marks import IGNORES_LIGHTNINGS_WARNINGS, slow

pytestmark = IGNORES_LIGHTNINGS_WARNINGS
SMALL = {"widths": [32, 32], "dropout": 0.0}
SGD = ModelSpec(name="mlp", args=SMALL, optimizer="sgd", learning_rate=0.05)
ADAM = ModelSpec(name="mlp", args=SMALL, optimizer="adam", learning_rate=1e-3)


def fit_cell(**changes):
    settings = {"mode": Mode.train, "protocol": Protocol.fit, "model": SGD, "epochs": 3, "batch_size": 32}
    return make_cell(**{**settings, **changes})


def plain_losses(cell, folder):
    """The mean loss of each epoch, from a plain loop."""
    torch.manual_seed(cell.seed)
    is_mixed, dtype = cell.precision in MIXED, DTYPES[cell.precision]
    network = zoo.build(cell.model, (28, 28), 10).to(torch.float32 if is_mixed else dtype)
    make = {"adam": partial(torch.optim.Adam, eps=1e-7), "sgd": torch.optim.SGD}[cell.model.optimizer]
    optimizer = make(network.parameters(), lr=cell.model.learning_rate)
    scaler = torch.amp.GradScaler("cpu", enabled=cell.precision == Precision.fp16_mixed)
    arrays, losses = load_split(folder, "train"), []
    feed = ArrayFeed(arrays, Order(len(arrays.labels), cell.batch_size, shuffle=True, seed=cell.seed, last="keep"))
    for _ in range(cell.epochs):
        total = 0.0
        for images, labels in feed:
            inputs = images.to(torch.float32 if is_mixed else dtype) / 255
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=dtype) if is_mixed else contextlib.nullcontext():
                loss = functional.cross_entropy(network(inputs), labels)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            total += loss.item() * len(labels)
        losses.append(total / 300)
    return losses


QUICK = (Precision.fp32, Precision.bf16_mixed)  # the others take 10 s each


@pytest.mark.parametrize("model", [SGD, ADAM], ids=["sgd", "adam"])
@pytest.mark.parametrize(
    "precision",
    [p if p in QUICK else pytest.param(p, marks=pytest.mark.slow) for p in NOT_QUANTIZED if p != Precision.tf32],
)
def test_losses_are_a_plain_loops_in_every_precision(digits, precision, model):
    if (precision, model) == (Precision.fp16, ADAM):
        pytest.skip("Adam's epsilon underflows in fp16: such a cell is not run")
    cell = fit_cell(precision=precision, model=model)
    measured = engine.run(cell, digits)
    assert [epoch.loss for epoch in measured.epochs] == pytest.approx(plain_losses(cell, digits), rel=1e-6)
    assert measured.epochs[-1].loss < measured.epochs[0].loss
    assert judge(cell, measured) is None


@pytest.mark.parametrize(
    ("name", "small", "mode"),
    [
        ("cnn", {"channels": 8}, Mode.infer),
        slow("rnn", {"units": 16}, Mode.train),
        ("lstm", {"units": 16}, Mode.infer),
        ("autoencoder", {}, Mode.train),
    ],
)
def test_networks_train_and_infer(digits, name, small, mode):
    cell = make_cell(mode=mode, model=ModelSpec(name=name, args=small), breakdown_s=0)
    measured = engine.run(cell, digits)
    assert judge(cell, measured) is None
    assert all(block.num_samples == 32 * block.num_steps for block in measured.blocks)
    assert len(measured.latency_s) == len(measured.data_s) == len(measured.launch_s) > 0
    assert measured.warmup_s[0] == measured.first_step_s
    assert measured.copy_in_s == measured.copy_out_s == []  # nothing is copied on the CPU
    assert (measured.loss is None) == (mode == Mode.infer)
    assert measured.output_error == pytest.approx(0.0, abs=1e-5)


def test_a_fit_is_tested_on_every_test_sample_outside_of_its_epochs_times(digits):
    measured = engine.run(fit_cell(model=ADAM, epochs=8, batch_size=100), digits)
    tested = [epoch.evaluation for epoch in measured.epochs]
    assert [evaluation.num_samples for evaluation in tested] == [90] * 8  # fewer than a batch
    assert tested[-1] == measured.evaluation
    assert tested[-1].accuracy > 0.8
    assert tested[0].loss > tested[-1].loss
    assert {epoch.num_samples for epoch in measured.epochs} == {300}
    assert 0 < measured.epochs[0].accuracy < measured.epochs[-1].accuracy <= 1
    assert_epochs_in_turn(measured)


LINEAR = dataclasses.replace(SGD, args={"widths": [], "dropout": 0.0}, learning_rate=1e120)
FEW = {"protocol": Protocol.steps, "warmup": 1, "steps": 2}  # few, because such a large loss may become 0 later


@pytest.mark.parametrize("changes", [{}, FEW])
def test_a_loss_that_diverged_is_named_and_its_record_can_be_read(digits, changes):
    cell = fit_cell(model=LINEAR, precision=Precision.fp64, breakdown_s=0, **changes)
    measured = engine.run(cell, digits)
    assert judge(cell, measured) is None
    messages = ("the loss diverged to ", "after training, weights are not finite")
    assert any(warning.startswith(messages) for warning in measured.warnings)
    assert load(Measurement, json.loads(json.dumps(dataclasses.asdict(measured), allow_nan=False))) == measured


def test_a_substituted_precision_is_seen(digits, monkeypatch):
    monkeypatch.setattr(module, "step_context", lambda precision, kind: step_context(Precision.bf16_mixed, kind))
    cell = make_cell(model=SGD, precision=Precision.fp16_mixed, mode=Mode.train)
    assert judge(cell, engine.run(cell, digits)) == "asked for precision fp16_mixed, but bf16_mixed ran"


@pytest.mark.parametrize(
    ("precision", "low", "high"),
    [(Precision.fp64, 1e-9, 1e-5), (Precision.fp16, 1e-5, 1e-2), (Precision.bf16, 1e-4, 0.05)],
)
@pytest.mark.parametrize("protocol", [Protocol.window, slow(Protocol.fit)])
def test_the_output_is_compared_with_fp32s(digits, precision, low, high, protocol):
    measured = engine.run(make_cell(model=SGD, precision=precision, protocol=protocol), digits)
    assert low < measured.output_error < high
    assert measured.warnings == []


# Only one of the protocols that serve requests is fast.
SERVE_TOO = (Protocol.offline, Protocol.single_stream, Protocol.multi_stream)


@pytest.mark.parametrize(
    "protocol",
    [slow(protocol) if protocol in SERVE_TOO else protocol for protocol in Protocol if protocol != Protocol.target],
)
def test_inference_is_in_evaluation_mode_without_gradients(digits, protocol, monkeypatch):
    modes = set()
    honest = engine.InferStep.compute

    def compute(step, batch):
        modes.add((step.network.training, torch.is_grad_enabled()))
        return honest(step, batch)

    monkeypatch.setattr(engine.InferStep, "compute", compute)
    measured = engine.run(make_cell(model=SGD, protocol=protocol, server=Server(duration_s=1.0)), digits)
    assert modes == {(False, False)}
    if protocol == Protocol.fit:
        assert [epoch.num_samples for epoch in measured.epochs] == [90] * NUM_INFER_EPOCHS
        assert measured.evaluation is None
        assert_epochs_in_turn(measured)


def test_threads_are_as_asked_and_pytorchs_own_number_is_not_set_again(digits, monkeypatch):
    before = torch.get_num_threads()
    try:
        assert engine.run(make_cell(model=SGD, threads=1), digits).threads == 1
        torch.set_num_threads(usable_cores())
        monkeypatch.setattr(torch, "set_num_threads", lambda num: pytest.fail(f"set to {num}"))  # MKL would be slower
        assert engine.run(make_cell(model=SGD), digits).threads == usable_cores()
    finally:
        monkeypatch.undo()
        torch.set_num_threads(before)


@pytest.mark.gpu
@pytest.mark.parametrize("mode", STEP_MODES)
@pytest.mark.parametrize("precision", list(NOT_QUANTIZED))
def test_a_gpu_runs_every_precision_as_asked(hosts, digits, precision, mode):
    outcome = hosts.run(make_cell(device=Device.gpu, precision=precision, mode=mode, model=SGD), digits)
    assert outcome.status == Status.ok, outcome.reason
    measured = outcome.measurement
    assert (measured.device, measured.precision, measured.num_devices) == ("gpu", precision, 1)
    assert measured.peak_device_bytes > 0
    assert measured.cudnn_benchmark is False
    assert measured.output_error is None or measured.output_error < 0.1
    assert {"gpu_0_memory_mb", "gpu_0_power_w"} <= set(outcome.system.values)


COLD = """
import importlib, pathlib, sys
from accelbench.engines.registry import host_spec
from fakes import make_cell
cell = make_cell()
for module in host_spec(cell).preload:
    importlib.import_module(module)
measured = importlib.import_module(host_spec(cell).engine).run(cell, pathlib.Path({folder!r}))
print(measured.work.flops)
print([name for name in {names} if name in sys.modules])
"""


def test_a_cell_of_inference_imports_nothing_that_only_others_need(digits, printed):
    names = ["torchvision", "pytorch_lightning", "transformers", "PIL", "pandas", "scipy"]
    if torch.__version__.startswith("2.9."):  # newer releases import these two themselves
        names += ["torch._dynamo", "sympy"]
    lines = printed(COLD.format(folder=str(digits), names=names), PYTHONPATH=str(TESTS))
    assert lines == [str(2 * 32 * (784 * 512 + 3 * 512 * 512 + 512 * 10)), "[]"]
