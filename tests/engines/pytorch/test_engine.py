"""The engine, compared with hand-written loops, on the CPU in this process."""

import contextlib
import json
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

from accelbench.data.arrays import load_split
from accelbench.data.order import Order, parts_of
from accelbench.devices.cpu import usable_cores
from accelbench.devices.registry import look
from accelbench.engines.pytorch import engine, module, options, probe, zoo
from accelbench.engines.pytorch.feed import ArrayFeed
from accelbench.engines.pytorch.module import ImageTask
from accelbench.engines.pytorch.precision import DTYPES, MIXED, step_context
from accelbench.errors import UnsupportedError
from accelbench.grid.support import why_not
from accelbench.judging.row import of_training, summarise
from accelbench.judging.verdict import judge
from accelbench.measuring.clock import NUM_INFER_EPOCHS
from accelbench.schema.ceilings import TRUE_PRECISIONS
from accelbench.schema.cell import (
    NOT_QUANTIZED,
    Device,
    Library,
    Mode,
    ModelSpec,
    Options,
    Precision,
    Protocol,
    Server,
    Span,
    Stop,
)
from accelbench.schema.measurement import Measurement
from accelbench.schema.serialize import load, plain
from engines.cells import FIT, MLP, TWO_STEPS, cell_to_goal, measured
from fakes import assert_epochs_in_turn, make_cell, make_record
from marks import slow

ADAM = replace(MLP, optimizer="adam", learning_rate=1e-3)


def plain_losses(cell, folder):
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


EVERY = [(precision, MLP) for precision in NOT_QUANTIZED if precision != Precision.tf32]


@pytest.mark.parametrize(("precision", "model"), [*EVERY, (Precision.fp32, ADAM), (Precision.bf16_mixed, ADAM)])
def test_losses_are_a_plain_loops_in_every_precision(digits, precision, model):
    cell = make_cell(**FIT | {"precision": precision, "model": model, "epochs": 3})
    measurement = measured(engine, cell, digits)
    losses = [epoch.loss for epoch in measurement.epochs]
    assert losses == pytest.approx(plain_losses(cell, digits), rel=1e-6)
    assert losses[-1] < losses[0]
    tested = [epoch.evaluation for epoch in measurement.epochs]
    assert {evaluation.num_samples for evaluation in tested} == {90}  # not a multiple of the batch size
    assert tested[-1] == measurement.evaluation
    assert tested[0].loss > tested[-1].loss
    assert {epoch.num_samples for epoch in measurement.epochs} == {300}
    assert 0 < measurement.epochs[0].accuracy < measurement.epochs[-1].accuracy <= 1
    assert_epochs_in_turn(measurement)


@pytest.mark.parametrize(
    ("name", "small", "mode"), [("cnn", {"channels": 8}, Mode.infer), ("autoencoder", {}, Mode.train)]
)
def test_networks_train_and_infer(digits, name, small, mode):
    measurement = measured(engine, make_cell(mode=mode, model=ModelSpec(name=name, args=small), breakdown_s=0), digits)
    assert all(block.num_samples == 32 * block.num_steps for block in measurement.blocks)
    assert len(measurement.latency_s) == len(measurement.data_s) == len(measurement.launch_s) > 0
    assert measurement.warmup_s[0] == measurement.first_step_s
    assert measurement.copy_in_s == measurement.copy_out_s == []  # nothing is copied on the CPU
    assert (measurement.loss is None) == (mode == Mode.infer)
    assert measurement.output_error == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("changes", [{}, TWO_STEPS])  # few steps, because such a large loss may become 0 later
def test_a_loss_that_diverged_is_named_and_its_record_can_be_read(digits, changes):
    model = replace(MLP, args={"widths": [], "dropout": 0.0}, learning_rate=1e120)
    settings = {"model": model, "precision": Precision.fp64, "epochs": 3, "breakdown_s": 0, **changes}
    measurement = measured(engine, make_cell(**FIT | settings), digits)
    messages = ("the loss diverged to ", "after training, weights are not finite")
    assert any(warning.startswith(messages) for warning in measurement.warnings)
    assert load(Measurement, json.loads(json.dumps(plain(measurement), allow_nan=False))) == measurement


def test_a_substituted_precision_is_seen(digits, monkeypatch):
    monkeypatch.setattr(module, "step_context", lambda precision, kind: step_context(Precision.bf16_mixed, kind))
    cell = make_cell(model=MLP, precision=Precision.fp16_mixed, mode=Mode.train)
    assert judge(cell, engine.run(cell, digits)) == "asked for precision fp16_mixed, but bf16_mixed ran"


@pytest.mark.parametrize(
    ("precision", "low", "high"),
    [(Precision.fp64, 1e-9, 1e-5), (Precision.fp16, 1e-5, 1e-2), (Precision.bf16, 1e-4, 0.05)],
)
def test_the_output_is_compared_with_fp32s(digits, precision, low, high):
    measurement = engine.run(make_cell(model=MLP, precision=precision), digits)
    assert low < measurement.output_error < high
    assert measurement.warnings == []


@pytest.mark.parametrize(
    "protocol", ["window", "steps", "fit", "server", slow("offline"), slow("single_stream"), slow("multi_stream")]
)
def test_inference_is_in_evaluation_mode_without_gradients(digits, protocol, monkeypatch):
    modes = set()
    honest = engine.InferStep.compute

    def compute(step, batch):
        modes.add((step.network.training, torch.is_grad_enabled()))
        return honest(step, batch)

    monkeypatch.setattr(engine.InferStep, "compute", compute)
    measurement = engine.run(make_cell(model=MLP, protocol=Protocol(protocol), server=Server(duration_s=1.0)), digits)
    assert modes == {(False, False)}
    if protocol == Protocol.fit:
        assert [epoch.num_samples for epoch in measurement.epochs] == [90] * NUM_INFER_EPOCHS
        assert measurement.evaluation is None
        assert_epochs_in_turn(measurement)


@pytest.mark.usefixtures("state_as_before")
def test_threads_are_as_asked_and_pytorchs_own_number_is_not_set_again(digits, monkeypatch):
    assert engine.run(make_cell(model=MLP, threads=1), digits).threads == 1
    torch.set_num_threads(usable_cores())
    with monkeypatch.context() as patch:
        patch.setattr(torch, "set_num_threads", lambda num: pytest.fail(f"set to {num}"))  # MKL would be slower
        assert engine.run(make_cell(model=MLP), digits).threads == usable_cores()


@pytest.mark.gpu
@pytest.mark.parametrize("mode", [Mode.infer, Mode.train])
@pytest.mark.parametrize("precision", NOT_QUANTIZED)
def test_a_gpu_runs_every_precision_as_asked(hosts, digits, precision, mode):
    outcome = hosts.run(make_cell(device=Device.gpu, precision=precision, mode=mode, model=MLP), digits)
    assert outcome.reason is None
    measurement = outcome.measurement
    assert (measurement.device, measurement.precision, measurement.num_devices) == ("gpu", precision, 1)
    assert measurement.peak_device_bytes > 0
    assert measurement.cudnn_benchmark is False
    assert measurement.output_error is None or measurement.output_error < 0.1
    assert {"gpu_0_memory_mb", "gpu_0_power_w"} <= set(outcome.system.values)


def test_the_operators_show_a_fused_kernel_of_an_lstm_and_none_of_an_rnn(digits):
    def operators(name, mode):
        cell = make_cell(mode=mode, model=ModelSpec(name=name, args={"units": 16}))
        measurement = measured(engine, cell, digits)
        return {operator.name: operator for operator in measurement.operators}

    lstm, rnn = operators("lstm", Mode.train), operators("rnn", Mode.infer)
    for name in ("aten::mkldnn_rnn_layer", "aten::mkldnn_rnn_layer_backward"):
        assert lstm[name].num_calls == 3  # one for each layer
    assert "aten::mkldnn_rnn_layer" not in rnn
    assert rnn["aten::addmm"].num_calls >= 3 * 28  # one for each layer and row
    assert 0 < sum(operator.share for operator in lstm.values()) <= 1


# Options change the network, but not its output.


def layers_in(network, kind):
    return [layer for layer in network.modules() if isinstance(layer, kind)]


def test_folding_leaves_no_batch_normalisation_and_channels_last_is_how_weights_and_inputs_lie_in_memory():
    torch.manual_seed(0)
    resnet = zoo.build(ModelSpec(name="resnet18", library="torchvision"), (3, 32, 32), 10).eval()
    images, norms = torch.rand(4, 3, 32, 32), layers_in(resnet, nn.BatchNorm2d)
    for norm in norms:  # new statistics are 0 and 1, and would hide a wrong fold
        for values in (norm.running_mean, norm.running_var, norm.weight.data, norm.bias.data):
            values.uniform_(0.5, 2)
    before = resnet(images)
    folded = options.prepared(resnet, Options(freeze=True))
    assert (len(layers_in(folded, nn.BatchNorm2d)), len(norms)) == (0, 20)
    assert torch.allclose(folded(images), before, rtol=1e-4, atol=1e-5)
    with pytest.raises(UnsupportedError, match="^freeze=true: no batch normalisation of the network can be folded"):
        options.prepared(nn.Linear(784, 10), Options(freeze=True))
    network = options.prepared(resnet, Options(channels_last=True))
    weights = [layer.weight for layer in layers_in(network, nn.Conv2d)]
    last, plain = (ImageTask(torch.float32, channels_last=value).inputs(images) for value in (True, False))
    lie = [tensor.is_contiguous(memory_format=torch.channels_last) for tensor in (*weights, last, plain)]
    assert lie == [True] * 21 + [False]
    assert torch.equal(last, images)


# The reason if this machine can't compile; else None.
NO_COMPILER = why_not(make_cell(options=Options(compile=True)), look(Device.cpu))


@pytest.mark.skipif(NO_COMPILER is not None, reason=str(NO_COMPILER))
@pytest.mark.timeout(600)
@pytest.mark.parametrize("backend", ["eager", slow("inductor")])  # inductor takes ten seconds
def test_a_compiled_network_gives_the_plain_ones_output_and_its_compilation_is_timed(digits, monkeypatch, backend):
    import torch._inductor.config  # a slow import

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    # Skips precompiled headers and the compiler's self-test: this network has only one kernel.
    with torch._inductor.config.patch({"cpp_cache_precompile_headers": False, "cpp.vec_isa_ok": True}):
        cell = make_cell(model=MLP, options=Options(compile=True), timeout_s=300.0)
        measurement = measured(engine, cell, digits)
    assert (measurement.num_compiles, measurement.warnings) == (1, [])
    assert 0 < measurement.compile_s <= measurement.first_step_s
    assert max(measurement.warmup_s[1:]) < measurement.compile_s
    assert measurement.output_error < 1e-5
    assert measurement.num_params == engine.run(make_cell(model=MLP), digits).num_params


# The device's peak speeds.


@pytest.mark.usefixtures("state_as_before")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int8])
def test_kernels_run_in_every_true_precision_of_a_cpu(dtype):
    device = torch.device("cpu")
    results = []
    for kernel, sizes in probe.kernels(dtype, device):
        if kernel is not probe._onednn_linear or dtype == torch.float32:  # the release may lack it in this format
            results.append(kernel(*(probe._drawn(shape, dtype, device) for shape in sizes[0]))())
    assert len(results) >= (1 if dtype == torch.int8 else 3)
    assert all(torch.isfinite(result.to_dense()).all() for result in results)


@pytest.mark.gpu
def test_a_gpus_ceilings():
    ceilings = probe.run(Device.gpu)
    assert ceilings.device == "gpu"
    assert ceilings.device_name == torch.cuda.get_device_name()
    assert {"fp32", "fp16", "fp64"} <= set(ceilings.flops_per_s) <= set(TRUE_PRECISIONS)
    assert ceilings.flops_per_s["fp16"] > ceilings.flops_per_s["fp32"]
    assert ceilings.memory_bytes_per_s > 1e9
    assert 1e-7 < ceilings.launch_s < 1e-4


# Trainings to a target, compared with known results.


def late(num, **changes):
    """A network that answers right from step `num` on. An epoch of 270 samples has 9 steps."""
    network = {"library": Library.custom, "network": "own_code.Late", "args": {"num": num}}
    return ModelSpec(name="late", optimizer="sgd", learning_rate=1e-6, **{**network, **changes})


@pytest.mark.parametrize(
    ("num", "settings", "hit_epochs", "num_evaluations"),
    [(10, {}, 2.0, 3), (10, {"every_steps": 4}, 12 / 9, 4), (99, {}, None, 5), (1, {"definition": "fixed"}, 5.0, 1)],
)
def test_a_network_that_is_right_from_a_step_on(digits, num, settings, hit_epochs, num_evaluations):
    measurement = measured(engine, cell_to_goal(late(num), settings), digits)
    training = measurement.target
    assert load(Measurement, plain(measurement)) == measurement
    assert (len(training.evaluations), training.num_validation) == (num_evaluations, 30)
    reached = None if training.hit is None else training.evaluations[training.hit].epochs
    assert reached == pytest.approx(hit_epochs, abs=0.1)
    assert training.tested == (hit_epochs is not None)
    assert {evaluation.value for evaluation in training.evaluations} <= {0.0, 1.0}
    assert measurement.epochs == [] == measurement.blocks
    assert sum(span.seconds for span in training.log) >= 0.99 * training.log[-1].ended_s
    assert [span.span for span in training.log[:4]] == [Span.start, Span.data, Span.build, Span.train]


@pytest.mark.parametrize("target", [{"accuracy": 1.0}, {"definition": "fixed", "accuracy": 0.01}])
def test_it_ends_before_its_time_limit_as_not_arrived(digits, target):
    cell = cell_to_goal(replace(MLP, learning_rate=1e-6), target, epochs=10**7, timeout_s=1.0)
    measurement = measured(engine, cell, digits)
    last = measurement.target.evaluations[-1]
    assert (measurement.stop, measurement.target.hit) == (Stop.timeout, None)
    assert 0 < last.epochs < 10**7
    record = make_record(cell, measurement=measurement)
    assert record.was_cut(600.0)
    row = summarise(record)
    assert (row["target_reached"], row["target_budget_s"]) == (False, last.ended_s)
    assert "of at most 10000000 epochs, timeout_s" in row["warnings"]


def test_equal_seeds_give_equal_curves_and_other_seeds_others(digits):
    curves = []
    for seed in (0, 0, 1):
        training = engine.run(cell_to_goal(seed=seed, target={"accuracy": 1.0, "metric": "accuracy"}), digits).target
        assert training.deterministic
        curves.append([evaluation.value for evaluation in training.evaluations])
    assert curves[0] == curves[1] != curves[2]


def test_an_own_metric_is_a_mean_over_samples_and_its_time_is_no_training(digits):
    model = late(1, loss="own_code.squares", metric="own_code.mean_label")
    target = {"accuracy": None, "metric": "metric", "value": 9.0}
    cell = cell_to_goal(model, target, epochs=2, batch_size=16)
    training = engine.run(cell, digits).target
    mean = load_split(digits, "train").labels[parts_of(300, 0.1)[1]].mean()
    evaluations = [(evaluation.num_samples, evaluation.value) for evaluation in training.evaluations]
    assert evaluations == [(270, pytest.approx(mean)), (540, pytest.approx(mean))]
    assert training.tested == pytest.approx(load_split(digits, "test").labels.mean())
    early = engine.run(cell_to_goal(model, {**target, "value": 1.0}, epochs=2), digits).target
    reached = of_training(make_record(cell), early)
    assert reached["target_s"] - reached["target_train_s"] >= 0.05


@pytest.mark.parametrize("target", [{}, {"accuracy": None, "metric": "loss", "value": 0.1}])
def test_a_loss_that_is_not_finite_ends_it_as_not_arrived(digits, target):
    measurement = measured(engine, cell_to_goal(late(1, loss="own_code.diverging"), target), digits)
    assert [evaluation.value for evaluation in measurement.target.evaluations] == [None]
    assert (measurement.target.hit, measurement.evaluation.loss) == (None, None)
