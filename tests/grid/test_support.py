import dataclasses
import itertools
import re
import sys
from pathlib import Path

import pytest

from accelbench.devices import packages
from accelbench.devices.registry import DeviceReport, absent
from accelbench.grid import support
from accelbench.grid.support import why_not
from accelbench.schema.cell import Cell, KerasSettings, Options
from accelbench.schema.vocab import (
    NOT_QUANTIZED,
    Allocator,
    Augment,
    Device,
    Engine,
    KerasBackend,
    Library,
    Mode,
    ModelOutput,
    Pipeline,
    Precision,
    Protocol,
)
from accelbench.schema.workload import DataSpec, ModelSpec
from fakes import make_cell

MODELS = ("mlp", "cnn", "rnn", "lstm", "autoencoder")


def report(device, capability="8.0", instruction_sets="", count=1):
    details = {"compute_capability": capability} if device == Device.gpu and capability else {}
    details |= {"instruction_sets": instruction_sets}
    return DeviceReport(device=device, present=True, name="NVIDIA X", count=count, details=details)


def cell(device, precision, mode=Mode.train, model="mlp", optimizer="adam"):
    return Cell(
        suite="test",
        engine=Engine.lightning,
        device=Device(device),
        model=ModelSpec(name=model, optimizer=optimizer),
        data=DataSpec(name="mnist"),
        mode=Mode(mode),
        precision=Precision(precision),
        batch_size=32,
        protocol=Protocol.window,
        epochs=1,
    )


def test_devices_are_as_many_as_there_are_and_share_the_batch_evenly():
    cores = dataclasses.replace(report(Device.cpu), details={"usable_cores": "2"})
    two = dataclasses.replace(cell("cpu", "fp32"), devices=2)
    assert why_not(two, cores) is None
    assert why_not(dataclasses.replace(two, devices=3), cores) == "devices=3: there are 2 cores"
    assert why_not(dataclasses.replace(two, batch_size=33), cores).startswith("batch_size=33 does not divide among 2")
    assert why_not(dataclasses.replace(two, device=Device.gpu), report(Device.gpu)) == "devices=2: there are 1 of gpu"
    graphs = dataclasses.replace(cell("gpu", "fp32"), devices=2, options=Options(cuda_graphs=True))
    told = why_not(graphs, report(Device.gpu, count=2))
    assert told.startswith("cuda_graphs=true: gradients are averaged")
    assert why_not(dataclasses.replace(graphs, mode=Mode.infer), report(Device.gpu, count=2)) is None


def test_training_needs_logits():
    own = ModelSpec(name="Mine", library=Library.custom, network="nets.Mine", output=ModelOutput.any)
    infer = dataclasses.replace(cell("cpu", "fp32", "infer"), model=own)
    assert why_not(infer, report(Device.cpu)) is None
    assert why_not(dataclasses.replace(infer, mode=Mode.train), report(Device.cpu)) == (
        "model.output=any: the built-in loss needs logits: use model.loss, mode=infer or model.output=logits"
    )


def test_an_engine_that_is_not_installed_is_told(monkeypatch):
    plain = cell("cpu", "fp32")

    def without(*names):
        monkeypatch.setattr(packages, "folder", lambda name: None if name in names else Path(name))
        return [
            why_not(each, report(Device.cpu))
            for each in (plain, dataclasses.replace(plain, engine=Engine.keras, keras=KerasSettings()))
        ]

    assert without() == [None, None]
    lightning, keras = without("torch", "pytorch_lightning")
    assert lightning == (
        "engine=lightning: torch is not installed in this environment: use engine=keras, or make setup"
    )
    assert keras is None
    told = "engine=keras engine.backend=tensorflow: tensorflow is not installed: make setup"
    assert without("tensorflow")[1] == told
    monkeypatch.setattr(packages, "is_checkout", lambda: False)
    assert without("keras")[1] == (
        "engine=keras engine.backend=tensorflow: keras is not installed: pip install 'accelbench[keras]'"
    )


@pytest.mark.parametrize("name", ["timm", "transformers"])
def test_a_library_of_networks_that_is_not_installed_is_told(monkeypatch, name):
    monkeypatch.setattr(packages, "folder", lambda asked: None if asked == name else Path(asked))
    monkeypatch.setattr(packages, "is_checkout", lambda: False)
    theirs = dataclasses.replace(cell("cpu", "fp32"), model=ModelSpec(name="x", library=Library(name), network="x"))
    told = f"model={name}: {name} is not installed: pip install 'accelbench[{name}]'"
    assert why_not(theirs, report(Device.cpu)) == told


def refused(device, **kwargs):
    """Every refused (precision, mode, model) on `device`, with adam and with sgd."""
    found = {}
    for precision, mode, model, optimizer in itertools.product(NOT_QUANTIZED, Mode, MODELS, ("adam", "sgd")):
        reason = why_not(cell(device, precision, mode, model, optimizer), report(device, **kwargs))
        if reason is not None:
            found[precision.value, mode.value, model, optimizer] = reason
    return found


def all_of(precision, modes=Mode, models=MODELS, optimizers=("adam", "sgd")):
    return {(precision, str(mode), model, opt) for mode, model, opt in itertools.product(modes, models, optimizers)}


FP16_ADAM = all_of("fp16", modes=["train"], optimizers=["adam"])
LSTM = all_of("fp16_mixed", models=["lstm"])
ON_XLA = all_of("tf32") | all_of("fp16") | all_of("fp16_mixed")
OLDER_GPU = all_of("tf32") | all_of("bf16") | all_of("bf16_mixed") | FP16_ADAM


@pytest.mark.parametrize(
    ("device", "kwargs", "expected"),
    [
        (Device.cpu, {}, all_of("tf32") | FP16_ADAM | LSTM),
        (
            Device.cpu,
            {"instruction_sets": "avx2 avx512_fp16"},
            all_of("tf32") | FP16_ADAM | all_of("fp16_mixed", models=["lstm"], modes=["train"]),
        ),
        (Device.tpu, {}, ON_XLA),
        (Device.xla_cpu, {}, ON_XLA),
        *((Device.gpu, {"capability": word}, FP16_ADAM) for word in ("8.0", "12.0")),
        *((Device.gpu, {"capability": word}, OLDER_GPU) for word in ("7.5", None)),
    ],
)
def test_what_is_refused_and_that_what_is_named_instead_runs(device, kwargs, expected):
    found = refused(device, **kwargs)
    assert set(found) == expected
    for (precision, mode, model, optimizer), reason in found.items():
        assert "\n" not in reason
        instead = Precision(reason.rpartition(": use ")[2])
        assert instead != precision
        assert why_not(cell(device, instead, mode, model, optimizer), report(device, **kwargs)) is None


def test_processes_are_joined_on_tpus_alone():
    apart = {"devices": 2, "xla_processes": True}
    on_cpus, on_tpus = (dataclasses.replace(cell(device, "fp32"), **apart) for device in ("xla_cpu", "tpu"))
    assert "PJRT joins no processes on CPUs" in why_not(on_cpus, report(Device.xla_cpu, count=2))
    assert why_not(on_tpus, report(Device.tpu, count=2)) is None


def test_an_absent_device_comes_first_and_a_gpu_is_named_with_what_it_has():
    for device, precision in itertools.product(Device, NOT_QUANTIZED):
        assert why_not(cell(device, precision), absent(device, "nothing there")) == "nothing there"
    reason = why_not(cell("gpu", "tf32"), report(Device.gpu, capability="7.5"))
    assert reason == "tf32 needs compute capability 8.0, NVIDIA X has 7.5: use fp32"


@pytest.fixture
def toolchain(tmp_path, monkeypatch):
    """A machine with compilers, whatever this one has."""
    for command in ("g++", "clang++", "gcc"):
        (tmp_path / command).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CC", raising=False)
    return tmp_path


PLAIN = vars(Options())


def with_options(device, mode="infer", **on):
    return dataclasses.replace(cell(device, "fp32", mode), options=Options(**on))


@pytest.mark.parametrize(
    ("device", "mode", "on", "told"),
    [
        ("cpu", "train", {"freeze": True}, "freeze=true makes the weights constants, and training changes them"),
        ("tpu", "infer", {"compile": True}, "compile=true: XLA compiles every network anyway"),
        ("xla_cpu", "infer", {"channels_last": True}, "channels_last=true: XLA lays out memory as it sees fit"),
        ("cpu", "infer", {"cuda_graphs": True}, "cuda_graphs=true is for NVIDIA GPUs, cpu has no CUDA graphs"),
        ("gpu", "train", {"allocator": Allocator.jemalloc}, "allocator=jemalloc: a gpu computes in memory of its own"),
        ("gpu", "train", {"flush_denormals": True}, "flush_denormals=true: a gpu is not slowed by them"),
        ("xla_cpu", "train", {"flush_denormals": True}, "flush_denormals=true: XLA flushes denormal numbers by"),
    ],
)
def test_an_option_that_does_not_go_is_told_with_what_does(device, mode, on, told):
    asked = with_options(device, mode, **on)
    reason = why_not(asked, report(asked.device))
    assert reason.startswith(told)
    name, _, value = reason.rpartition(": use ")[2].partition("=")
    better = Mode(value) if name == "mode" else None
    again = (
        dataclasses.replace(asked, mode=better) if better else with_options(device, mode, **on | {name: PLAIN[name]})
    )
    assert why_not(again, report(again.device)) is None


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("device", [Device.cpu, Device.gpu])
def test_options_that_go(device, mode, toolchain):
    on = {"channels_last": True, "compile": True, "freeze": mode == Mode.infer, "cuda_graphs": device == Device.gpu}
    assert why_not(with_options(device, mode, **on), report(device)) is None
    assert why_not(with_options("xla_cpu", freeze=True), report(Device.xla_cpu)) is None


@pytest.mark.skipif(sys.platform != "linux", reason="needs glibc")
@pytest.mark.parametrize("device", [Device.cpu, Device.xla_cpu])
def test_the_allocator_is_an_option_of_every_engine_whose_library_must_be_installed(device, monkeypatch):
    assert why_not(with_options(device, allocator=Allocator.glibc_reuse), report(device)) is None
    keras = with_options(Device.cpu, allocator=Allocator.glibc_reuse)
    keras = dataclasses.replace(keras, engine=Engine.keras, keras=KerasSettings())
    assert "allocator" not in str(why_not(keras, report(Device.cpu)))
    monkeypatch.setattr(support.allocators, "library", lambda allocator: None)
    told = "allocator=tcmalloc: libtcmalloc_minimal.so.4 is not installed: install it (on Debian, libtcmalloc-minimal4)"
    assert why_not(with_options(device, allocator=Allocator.tcmalloc), report(device)) == told


def test_without_what_compiles_nothing_is_compiled(toolchain, monkeypatch):
    asked = with_options("gpu", compile=True)
    assert why_not(asked, report(Device.gpu, capability="6.1")).startswith("compile=true needs compute capability 7.0")
    for device, variable in (("cpu", "CXX"), ("gpu", "CC")):
        asked = with_options(device, compile=True)
        assert why_not(asked, report(asked.device)) is None
        monkeypatch.setenv(variable, "no-such-compiler")
        told = f"compile=true needs a compiler, and {variable}=no-such-compiler is not found"
        assert why_not(asked, report(asked.device)).startswith(told)
        monkeypatch.delenv(variable)
        with monkeypatch.context() as elsewhere:
            elsewhere.setenv("PATH", str(toolchain / "empty"))
            assert why_not(asked, report(asked.device)).startswith("compile=true needs a compiler, and ")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"protocol": Protocol.fit}, "model=lightning: protocol=fit"),
        ({"devices": 2, "batch_size": 32}, "model=lightning: its loop is measured on one device: use devices=1"),
        ({"device": Device.xla_cpu}, "model=lightning: its loop is not measured on xla_cpu"),
        ({"options": Options(channels_last=True)}, "model=lightning: .* use channels_last=false"),
        ({"options": Options(flush_denormals=True)}, "None"),  # as its process does
        ({"precision": Precision.fp16}, "None"),  # Adam of accelbench's own does not run
    ],
)
def test_a_lightning_module_runs_as_it_is_on_one_device(changes, told):
    spec = ModelSpec(name="Lit", library=Library.lightning, network="my.Lit")
    lit = dataclasses.replace(cell("cpu", "fp32"), model=spec, data=DataSpec(name="module"), **changes)
    found = DeviceReport(device=lit.device, present=True, name="X", count=2, details={"usable_cores": "2"})
    assert re.match(told, str(why_not(lit, found)))


A_CPU = DeviceReport(device=Device.cpu, present=True, name="a CPU", count=1, details={"usable_cores": "2"})
JAX = {"backend": KerasBackend.jax, "jit_compile": True}


def keras_cell(keras=None, **changes):
    return make_cell(engine=Engine.keras, keras=KerasSettings(**(keras or {})), **changes)


RESIDENT = keras_cell(
    {"steps_per_execution": 2}, data=DataSpec(name="random", pipeline=Pipeline.device), mode=Mode.train
)


@pytest.mark.parametrize(
    "cell",
    [
        *(keras_cell(precision=precision) for precision in NOT_QUANTIZED if precision != Precision.tf32),
        keras_cell({"jit_compile": True, "steps_per_execution": 8}, threads=1),
        keras_cell(devices=2),
        keras_cell(JAX),
        dataclasses.replace(RESIDENT, mode=Mode.infer),
        keras_cell(model=ModelSpec(name="lstm"), precision=Precision.fp16_mixed),  # Keras has an LSTM of its own
    ],
)
def test_what_keras_runs_on_the_cpu(cell):
    assert why_not(cell, A_CPU) is None


@pytest.mark.parametrize(
    ("cell", "instead"),
    [
        (keras_cell(device=Device.xla_cpu), "use device=cpu engine.jit_compile=true"),
        (keras_cell(model=ModelSpec(name="resnet18", library=Library.timm)), "use engine=lightning"),
        (keras_cell(options=Options(compile=True)), "compile=true is an option of Lightning's"),
        (keras_cell(options=Options(flush_denormals=True)), "flush_denormals=true is not for Keras"),
        (keras_cell(data=DataSpec(name="cats_vs_dogs", pipeline=Pipeline.jpeg)), "use data.pipeline=array"),
        (keras_cell(data=DataSpec(name="mnist", augment=Augment.flip)), "use data.augment=none"),
        (keras_cell(precision=Precision.tf32), "use fp32"),
        (keras_cell(JAX, devices=2), "use engine.backend=tensorflow"),
        (keras_cell({**JAX, "jit_compile": False}), "operator by operator: use engine.jit_compile=true"),
        (keras_cell(JAX, threads=1), "JAX takes no limit"),
        (keras_cell({**JAX, "steps_per_execution": 2}), "for each step: use 1"),
        (RESIDENT, "use data.pipeline=host, or engine.steps_per_execution=1"),
        (keras_cell({"steps_per_execution": 2}, devices=2), "on several devices: use 1"),
        (
            keras_cell(model=ModelSpec(name="mlp", weights="/my.safetensors")),
            "model.weights=*.safetensors: Keras",
        ),
        (keras_cell(mode=Mode.train, save_weights=True), "save_weights=true: Keras' cells keep no weights"),
    ],
)
def test_what_it_does_not_run_and_what_does(cell, instead):
    assert instead in why_not(cell, dataclasses.replace(A_CPU, device=cell.device))


def test_jax_may_not_be_installed(monkeypatch):
    monkeypatch.setattr(packages, "folder", lambda name: None if name == "jax" else Path(name))
    reason = why_not(keras_cell(JAX), A_CPU)
    assert reason.startswith("engine=keras engine.backend=jax: jax is not installed: ")
    assert why_not(keras_cell(), A_CPU) is None


def test_a_named_tpu_is_none_of_this_machines():
    none = absent(Device.tpu, "no TPU chip on the PCI bus")
    assert why_not(keras_cell(device=Device.tpu), none) == none.reason
    named = keras_cell({"tpu": "mine"}, device=Device.tpu, devices=8)
    assert why_not(named, none) is None
    assert why_not(keras_cell({**JAX, "tpu": "mine"}, device=Device.tpu), none) == none.reason
    assert "use bf16" in why_not(dataclasses.replace(named, precision=Precision.fp16), none)
    assert why_not(dataclasses.replace(named, batch_size=33), none).startswith("batch_size=33 does not divide")
