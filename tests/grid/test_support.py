import dataclasses
import itertools
from pathlib import Path

import pytest

from accelbench.devices import packages
from accelbench.devices.registry import DeviceReport, absent
from accelbench.grid.support import why_not
from accelbench.schema.cell import (
    NOT_QUANTIZED,
    STEP_MODES,
    Allocator,
    DataSpec,
    Device,
    Engine,
    KerasSettings,
    Library,
    Mode,
    ModelSpec,
    Options,
    Pipeline,
    Precision,
    Protocol,
    Server,
)
from fakes import make_cell

MODELS = ("mlp", "cnn", "rnn", "lstm", "autoencoder")


def report(device, capability="8.0", **details):
    details |= {"compute_capability": capability} if device == Device.gpu and capability else {}
    return DeviceReport(device=device, name="NVIDIA X", count=2, details={"instruction_sets": "", **details})


def cell(device, precision, mode=Mode.train, model="mlp", optimizer="adam"):
    spec = ModelSpec(name=model, optimizer=optimizer)
    return make_cell(device=Device(device), precision=Precision(precision), mode=Mode(mode), model=spec)


def all_of(*precisions, modes=STEP_MODES, models=MODELS, optimizers=("adam", "sgd")):
    return set(itertools.product(precisions, modes, models, optimizers))


FP16_ADAM = all_of("fp16", modes=["train"], optimizers=["adam"])
FP16 = {"instruction_sets": "avx2 avx512_fp16"}
ON_CPU = all_of("tf32") | FP16_ADAM
ON_XLA = ON_CPU | all_of("fp16_mixed", modes=["train"])
OLDER_GPU = all_of("tf32", "bf16", "bf16_mixed") | FP16_ADAM


@pytest.mark.parametrize(
    ("device", "kwargs", "expected"),
    [
        (Device.cpu, {}, ON_CPU | all_of("fp16_mixed", models=["lstm"])),
        (Device.cpu, FP16, ON_CPU | all_of("fp16_mixed", models=["lstm"], modes=["train"])),
        *((Device.tpu, {}, ON_XLA), (Device.xla_cpu, {}, ON_XLA), (Device.tpu, {"torch_tpu": "1"}, ON_CPU)),
        *((Device.gpu, {"capability": word}, FP16_ADAM) for word in ("8.0", "12.0")),
        *((Device.gpu, {"capability": word}, OLDER_GPU) for word in ("7.5", None)),
    ],
)
def test_what_is_refused_and_that_what_is_named_instead_runs(device, kwargs, expected):
    here = report(device, **kwargs)
    asked = all_of(*NOT_QUANTIZED)
    found = {each: reason for each in asked if (reason := why_not(cell(device, *each), here)) is not None}
    assert set(found) == expected
    for (precision, *others), reason in found.items():
        instead = Precision(reason.rpartition(": use ")[2])
        assert instead != precision
        assert why_not(cell(device, instead, *others), here) is None


GRAPHS = make_cell(device=Device.gpu, devices=2, options=Options(cuda_graphs=True))
LIT = make_cell(model=ModelSpec(name="Lit", library=Library.lightning, network="my.Lit"), data=DataSpec(name="module"))
STEPS = KerasSettings(steps_per_execution=2)
ON_DEVICE = {"data": DataSpec(name="random", pipeline=Pipeline.device), "mode": Mode.train}
INT8 = {"precision": Precision.int8}


def keras(settings=KerasSettings(), **changes):  # noqa: B008
    return make_cell(engine=Engine.keras, keras=settings, **changes)


def exported(**changes):
    return make_cell(**{"engine": Engine.openvino, **changes})


def serving(**changes):
    return make_cell(protocol=Protocol.server, **changes)


def optional(device="cpu", **on):
    return make_cell(device=Device(device), options=Options(**on))


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (make_cell(devices=3), "devices=3: this machine has 2"),
        (make_cell(devices=2, batch_size=33), "batch_size=33: not divisible by devices=2"),
        (dataclasses.replace(GRAPHS, mode=Mode.train), "cuda_graphs=true: gradients are averaged"),
        (GRAPHS, None),
        (make_cell(model=ModelSpec(name="pets_cnn")), "not 28 x 28: use data=cats_vs_dogs"),
        (make_cell(model=ModelSpec(name="rnn"), data=DataSpec(name="mine-12345678")), None),  # known once prepared
        (make_cell(device=Device.xla_cpu, devices=2, xla_processes=True), "PJRT can't connect processes on CPUs"),
        (optional("tpu", compile=True), "compile=true: XLA compiles every network anyway"),
        (optional("gpu", allocator=Allocator.jemalloc), "allocator=jemalloc: sets the host's allocator, and a gpu has"),
        # A LightningModule runs as it is, on one device.
        (dataclasses.replace(LIT, options=Options(channels_last=True)), "use channels_last=false"),
        (dataclasses.replace(LIT, options=Options(flush_denormals=True)), None),  # as its process does
        (dataclasses.replace(LIT, precision=Precision.fp16), None),  # Adam of accelbench's own does not run
        # Keras
        (keras(model=ModelSpec(name="lstm"), precision=Precision.fp16_mixed), None),  # it has an LSTM of its own
        (keras(device=Device.xla_cpu), "use device=cpu engine.jit_compile=true"),
        (keras(options=Options(compile=True)), "compile=true: Keras has no such option"),
        (keras(STEPS, **ON_DEVICE), "use data.pipeline=host, or engine.steps_per_execution=1"),
        # Requests
        (serving(device=Device.gpu, devices=2), "protocol=server serves requests on one device: use devices=1"),
        (serving(engine=Engine.keras, keras=STEPS), "steps_per_execution=2: protocol=server computes one batch per"),
        (serving(options=Options(compile=True), server=Server(workers=2)), "compile=true runs one instance of the net"),
        (make_cell(mode=Mode.generate, device=Device.xla_cpu), "XLA would compile again for each length of the key"),
        (exported(mode=Mode.generate), "keeps no key-value cache: for mode=generate use engine=pytorch"),
        # What a network is exported to
        (exported(mode=Mode.train), "use mode=infer"),
        (exported(precision=Precision.bf16), "avx512_bf16 or amx_bf16, which this CPU lacks: use fp32"),
        (exported(**INT8, engine=Engine.aotinductor), "use engine=onnxruntime or engine=openvino"),
        (make_cell(**INT8), "use engine=onnxruntime or engine=openvino"),
    ],
)
def test_a_cell_that_does_not_run_is_told_with_what_does(asked, told):
    reason = why_not(asked, report(asked.device, instruction_sets="avx2 avx512f"))
    assert reason is None if told is None else told in reason


def test_what_is_not_installed_is_told_with_the_command(monkeypatch):
    def without(*names, asked):
        monkeypatch.setattr(packages, "folder", lambda name: None if name in names else Path(name))
        return why_not(asked, report(Device.cpu))

    told = "engine=pytorch: torch is missing in this environment: use one that has it, or engine=keras"
    assert without("torch", "pytorch_lightning", asked=make_cell()) == told
    assert without("torch", "pytorch_lightning", asked=keras()) is None
    told = "engine=openvino: nncf is not installed: pip install 'accelbench[openvino]'"
    assert without("nncf", asked=exported(**INT8)) == told
    assert without("nncf", asked=exported()) is None


@pytest.mark.parametrize(("device", "variable"), [("cpu", "CXX"), ("gpu", "CC")])
def test_without_what_compiles_nothing_is_compiled(device, variable, tmp_path, monkeypatch):
    for command in ("g++", "clang++", "gcc"):
        (tmp_path / command).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(variable, raising=False)
    asked = optional(device, compile=True)
    assert why_not(asked, report(asked.device)) is None
    monkeypatch.setenv(variable, "no-such-compiler")
    told = "compile=true needs a compiler, and no-such-compiler is not found"
    assert why_not(asked, report(asked.device)).startswith(told)
    old = report(Device.gpu, capability="6.1")
    assert why_not(optional("gpu", compile=True), old).startswith("compile=true needs compute capability 7.0")


def test_an_absent_device_comes_first_but_a_named_tpu_is_none_of_this_machines():
    for device, precision in itertools.product(Device, NOT_QUANTIZED):
        assert why_not(cell(device, precision), absent(device, "nothing there")) == "nothing there"
    named = keras(KerasSettings(tpu="mine"), device=Device.tpu, devices=8)
    assert why_not(named, absent(Device.tpu, "no TPU chip")) is None
