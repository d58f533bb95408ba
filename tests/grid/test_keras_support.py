import dataclasses
from pathlib import Path

import pytest

from accelbench.devices import packages
from accelbench.devices.registry import DeviceReport, absent
from accelbench.grid.support import why_not
from accelbench.schema.cell import KerasSettings, Options
from accelbench.schema.vocab import (
    NOT_QUANTIZED,
    Augment,
    Device,
    Engine,
    KerasBackend,
    Library,
    Mode,
    Pipeline,
    Precision,
)
from accelbench.schema.workload import DataSpec, ModelSpec
from fakes import make_cell

CPU = DeviceReport(device=Device.cpu, present=True, name="a CPU", count=1, details={"usable_cores": "2"})
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
    assert why_not(cell, CPU) is None


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
    assert instead in why_not(cell, dataclasses.replace(CPU, device=cell.device))


def test_jax_may_not_be_installed(monkeypatch):
    monkeypatch.setattr(packages, "folder", lambda name: None if name == "jax" else Path(name))
    reason = why_not(keras_cell(JAX), CPU)
    assert reason.startswith("engine=keras: jax is not installed: ")
    assert reason.endswith(", or use engine.backend=tensorflow")
    assert why_not(keras_cell(), CPU) is None


def test_a_named_tpu_is_none_of_this_machines():
    none = absent(Device.tpu, "no TPU chip on the PCI bus")
    assert why_not(keras_cell(device=Device.tpu), none) == none.reason
    named = keras_cell({"tpu": "mine"}, device=Device.tpu, devices=8)
    assert why_not(named, none) is None
    assert why_not(keras_cell({**JAX, "tpu": "mine"}, device=Device.tpu), none) == none.reason
    assert "use bf16" in why_not(dataclasses.replace(named, precision=Precision.fp16), none)
    assert why_not(dataclasses.replace(named, batch_size=33), none).startswith("batch_size=33 does not divide")
