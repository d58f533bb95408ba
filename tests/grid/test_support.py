"""What runs here and what does not."""

import itertools
from pathlib import Path

import pytest

from accelbench.devices import packages
from accelbench.devices.registry import DeviceReport, absent
from accelbench.grid.support import why_not
from accelbench.schema.cell import NOT_QUANTIZED, STEP_MODES, Device, Mode, ModelSpec, Precision
from accelbench.settings.to_cell import cell_and_options
from fakes import make_cell
from settings.composed import merged

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


def cell_of(words=""):
    return cell_and_options(merged("mode=infer", "precision=fp32", *words.split()))[0]


LIT = "model.name=lightning model.library=lightning model.target=my.nets.Lit data.name=module engine.name=lightning"
GENERATE = "mode=generate model.name=gpt2 model.library=transformers model.task=causal_lm data.name=random"
QUANTIZED = "use engine=onnxruntime or engine=openvino"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("devices=3", "devices=3: this machine has 2"),
        ("devices=2 batch_size=33", "batch_size=33: not divisible by devices=2"),
        ("device.name=gpu devices=2 cuda_graphs=true mode=train", "cuda_graphs=true: gradients are averaged"),
        ("device.name=gpu devices=2 cuda_graphs=true", None),
        ("model.name=pets_cnn", "not 28 x 28: use data=cats_vs_dogs"),
        ("model.name=rnn data.name=mine-12345678", None),  # known once prepared
        ("device.name=xla_cpu devices=2 engine.xla_processes=true", "PJRT can't connect processes on CPUs"),
        ("device.name=tpu compile=true", "compile=true: XLA compiles every network anyway"),
        ("device.name=gpu allocator=jemalloc", "allocator=jemalloc: sets the host's allocator, and a gpu has its own"),
        # A LightningModule runs as it is, on one device.
        (f"{LIT} channels_last=true", "use channels_last=false"),
        (f"{LIT} flush_denormals=true", None),  # as its process does
        (f"{LIT} mode=train precision=fp16", None),  # Adam of accelbench's own does not run
        # Keras
        ("engine.name=keras model.name=lstm precision=fp16_mixed", None),  # it has an LSTM of its own
        ("engine.name=keras device.name=xla_cpu", "use device=cpu engine.jit_compile=true"),
        ("engine.name=keras compile=true", "compile=true: Keras has no such option"),
        (
            "engine.name=keras engine.steps_per_execution=2 mode=train data.name=random data.pipeline=device",
            "use data.pipeline=host, or engine.steps_per_execution=1",
        ),
        # Requests
        ("protocol=server device.name=gpu devices=2", "serves requests on one device: use devices=1"),
        (
            "protocol=server engine.name=keras engine.steps_per_execution=2",
            "=2: protocol=server computes one batch per",
        ),
        ("protocol=server compile=true server.workers=2", "compile=true runs one instance of the net"),
        (f"{GENERATE} data.pipeline=host device.name=xla_cpu", "XLA would compile again for each length of the key-"),
        (f"{GENERATE} data.pipeline=host engine.name=openvino", "no key-value cache: for mode=generate use engine=py"),
        # What a network is exported to
        ("engine.name=openvino mode=train", "use mode=infer"),
        ("engine.name=openvino precision=bf16", "avx512_bf16 or amx_bf16, which this CPU lacks: use fp32"),
        *(("engine.name=aotinductor precision=int8", QUANTIZED), ("precision=int8", QUANTIZED)),
    ],
)
def test_a_cell_that_does_not_run_is_told_with_what_does(asked, told):
    cell = cell_of(asked)
    reason = why_not(cell, report(cell.device, instruction_sets="avx2 avx512f"))
    assert reason is None if told is None else told in reason


def test_what_is_not_installed_is_told_with_the_command(monkeypatch):
    def without(names, asked=""):
        monkeypatch.setattr(packages, "folder", lambda name: None if name in names else Path(name))
        return why_not(cell_of(asked), report(Device.cpu))

    told = "engine=pytorch: torch is missing in this environment: use one that has it, or engine=keras"
    assert without(["torch", "pytorch_lightning"]) == told
    assert without(["torch", "pytorch_lightning"], "engine.name=keras") is None
    told = "engine=openvino: nncf is not installed: pip install 'accelbench[openvino]'"
    assert without(["nncf"], "engine.name=openvino precision=int8") == told
    assert without(["nncf"], "engine.name=openvino") is None


def test_without_what_compiles_nothing_is_compiled(tmp_path, monkeypatch):
    for command in ("g++", "clang++", "gcc"):
        (tmp_path / command).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for device, variable in (("cpu", "CXX"), ("gpu", "CC")):
        monkeypatch.delenv(variable, raising=False)
        asked = cell_of(f"device.name={device} compile=true")
        assert why_not(asked, report(asked.device)) is None
        monkeypatch.setenv(variable, "no-such-compiler")
        told = "compile=true needs a compiler, and no-such-compiler is not found"
        assert why_not(asked, report(asked.device)).startswith(told)
    assert why_not(asked, report(Device.gpu, capability="6.1")).startswith("compile=true needs compute capability 7.0")


def test_an_absent_device_comes_first_but_a_named_tpu_is_none_of_this_machines():
    for device, precision in itertools.product(Device, NOT_QUANTIZED):
        assert why_not(cell(device, precision), absent(device, "nothing there")) == "nothing there"
    named = cell_of("engine.name=keras device.name=tpu devices=8 engine.tpu=mine")
    assert why_not(named, absent(Device.tpu, "no TPU chip")) is None
