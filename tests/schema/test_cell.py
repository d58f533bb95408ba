import dataclasses
import json
import subprocess
import sys
from enum import StrEnum

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelbench.schema.cell import Cell, KerasSettings, Options, TrainerSettings, Window
from accelbench.schema.serialize import canonical_json, load
from accelbench.schema.vocab import (
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
    Scaling,
    Task,
    Weights,
)
from accelbench.schema.workload import DataSpec, ModelSpec
from fakes import make_cell

POSITIVE = st.floats(min_value=1e-6, max_value=1e6)
NUMBER = st.integers(min_value=0, max_value=2**40)
AT_LEAST_ONE = st.integers(min_value=1, max_value=2**40)
ARGS = st.dictionaries(st.text(max_size=8), st.none() | st.booleans() | st.integers() | POSITIVE | st.text(max_size=8))
SHAPES = st.lists(AT_LEAST_ONE, min_size=2, max_size=3).map(tuple)
MODELS = st.builds(
    ModelSpec,
    name=st.text(),
    library=st.sampled_from(Library),
    network=st.none() | st.text(),
    factory=st.booleans(),
    weights=st.sampled_from(list(map(str, Weights))) | st.text(),
    args=ARGS,
    task=st.none() | st.sampled_from(Task),
    batch=st.none() | st.text(),
    batch_args=ARGS,
    inputs=st.lists(st.text(max_size=8)).map(tuple),
    loss=st.none() | st.text(),
    samples=st.none() | st.text(),
    tokens=st.none() | st.text(),
    optimizer=st.text(),
    learning_rate=POSITIVE,
    output=st.sampled_from(ModelOutput),
    input_shape=SHAPES,
    num_classes=AT_LEAST_ONE,
)
DATA = st.builds(
    DataSpec,
    name=st.text(),
    pipeline=st.sampled_from(Pipeline),
    num_workers=AT_LEAST_ONE,
    augment=st.sampled_from(Augment),
    target=st.none() | st.text(),
    args=ARGS,
    path=st.none() | st.text(),
)
WINDOWS = st.builds(
    Window,
    warmup_steps=NUMBER,
    warmup_s=POSITIVE,
    measure_s=POSITIVE,
    block_s=POSITIVE,
    latency_s=POSITIVE,
    latency_steps=NUMBER,
)
OPTIONS = st.builds(
    Options,
    channels_last=st.booleans(),
    compile=st.booleans(),
    freeze=st.booleans(),
    cuda_graphs=st.booleans(),
    flush_denormals=st.booleans(),
    allocator=st.sampled_from(Allocator),
)
KERAS = st.builds(
    KerasSettings,
    backend=st.sampled_from(KerasBackend),
    jit_compile=st.booleans(),
    steps_per_execution=AT_LEAST_ONE,
    tpu=st.text(),
)
CELLS = st.builds(
    Cell,
    suite=st.text(),
    engine=st.sampled_from(Engine),
    device=st.sampled_from(Device),
    model=MODELS,
    data=DATA,
    mode=st.sampled_from(Mode),
    precision=st.sampled_from(Precision),
    batch_size=AT_LEAST_ONE,
    protocol=st.sampled_from(Protocol),
    epochs=AT_LEAST_ONE,
    warmup=NUMBER,
    steps=AT_LEAST_ONE,
    devices=AT_LEAST_ONE,
    xla_processes=st.booleans(),
    scaling=st.sampled_from(Scaling),
    options=OPTIONS,
    keras=st.none() | KERAS,
    threads=st.none() | AT_LEAST_ONE,
    seed=NUMBER,
    repeat=NUMBER,
    window=WINDOWS,
    timeout_s=POSITIVE,
)
OTHER = {  # the other settings have another value of their type
    "model": ModelSpec(name="cnn"),
    "data": DataSpec(name="another"),
    "options": Options(compile=True),
    "keras": KerasSettings(),
    "trainer": TrainerSettings(),
    "threads": 1,
    "window": Window(),
}


def another(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return next(word for word in type(value) if word != value) if isinstance(value, StrEnum) else f"{value}x"


@given(CELLS)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)  # on a busy machine
def test_json_and_back_is_the_same_cell(cell):
    read = load(Cell, json.loads(json.dumps(cell.to_json())))
    assert read == cell
    assert read.id == cell.id
    assert isinstance(read.device, Device)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Cell)])
def test_every_setting_changes_the_id_but_the_label_and_the_time_limit(name):
    cell = make_cell()
    changed = dataclasses.replace(cell, **{name: OTHER.get(name) or another(getattr(cell, name))})
    assert changed != cell
    assert (changed.id == make_cell().id) == (name in ("suite", "timeout_s", "warmup", "steps"))


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(ModelSpec)])
def test_every_setting_of_the_model_changes_the_id(name):
    other = {"name": "cnn", "args": {"width": 8}, "optimizer": "sgd", "learning_rate": 0.5} | {
        "library": Library.timm,
        "network": "resnet18",
        "factory": True,
        "weights": Weights.pretrained,
        "constant": True,
        "output": ModelOutput.any,
        "input_shape": (3, 8, 8),
        "num_classes": 2,
        "task": Task.masked_lm,
        "batch": "nets.make_batch",
        "batch_args": {"seq_len": 8},
        "inputs": ("ids",),
        "loss": "nets.loss",
        "samples": "nets.count",
        "tokens": "nets.count",
    }
    changed = dataclasses.replace(make_cell().model, **{name: other[name]})
    assert make_cell(model=changed).id != make_cell().id


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(DataSpec)])
def test_every_setting_of_the_data_changes_the_id(name):
    other = {"name": "random", "pipeline": Pipeline.jpeg, "num_workers": 7, "augment": Augment.flip}
    other |= {"target": "nets.Data", "args": {"num": 8}, "path": "x.npz"}
    changed = dataclasses.replace(make_cell().data, **{name: other[name]})
    assert make_cell(data=changed).id != make_cell().id


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Options)])
def test_every_option_changes_the_id_and_the_label(name):
    other = {"allocator": Allocator.jemalloc}
    changed = make_cell(options=Options(**{name: other.get(name, True)}), repeat=1)
    assert changed.id != make_cell(repeat=1).id
    assert changed.label == f"mlp-cpu-fp32-b32-infer-{other.get(name, name)}-r1"


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(KerasSettings)])
def test_every_setting_of_keras_changes_the_id(name):
    other = {"backend": KerasBackend.jax, "jit_compile": True, "steps_per_execution": 4, "tpu": "my-tpu"}
    keras = make_cell(engine=Engine.keras, keras=KerasSettings())
    assert dataclasses.replace(keras, keras=KerasSettings(**{name: other[name]})).id != keras.id


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Window)])
@pytest.mark.parametrize("protocol", Protocol)
def test_the_window_is_part_of_a_window_cells_id_only(name, protocol):
    cell = make_cell(protocol=protocol)
    window = dataclasses.replace(cell.window, **{name: 7 + getattr(cell.window, name)})
    same = dataclasses.replace(cell, window=window).id == cell.id
    assert same == (protocol != Protocol.window)


@pytest.mark.parametrize("name", ["warmup", "steps"])
@pytest.mark.parametrize("protocol", Protocol)
def test_the_number_of_steps_is_part_of_the_id_where_it_is_what_is_run(name, protocol):
    cell = make_cell(protocol=protocol)
    same = dataclasses.replace(cell, **{name: 7}).id == cell.id
    assert same == (protocol != Protocol.steps)


def test_the_id_is_the_same_in_every_process():
    code = "import sys; sys.path.insert(0, sys.argv[1]); from fakes import make_cell; print(make_cell('raise').id)"
    ids = {
        subprocess.run(
            [sys.executable, "-c", code, sys.path[0]],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert ids == {make_cell("raise").id}
    assert len(make_cell().id) == 12
    assert int(make_cell().id, 16) >= 0


def test_the_order_of_arguments_does_not_change_the_id():
    one, two = ({"a": 1, "b": 2.5}, {"b": 2.5, "a": 1})
    assert make_cell(model=ModelSpec(name="mlp", args=one)).id == make_cell(model=ModelSpec(name="mlp", args=two)).id
    assert canonical_json(one) == '{"a":1,"b":2.5}'


def test_labels_name_what_differs():
    assert make_cell().label == "mlp-cpu-fp32-b32-infer"
    assert make_cell(repeat=3).label == "mlp-cpu-fp32-b32-infer-r3"
    assert make_cell(devices=2, scaling=Scaling.weak).label == "mlp-cpux2-fp32-b32-infer-weak"
    apart = make_cell(device=Device.xla_cpu, devices=2, xla_processes=True)
    assert apart.label == "mlp-xla_cpux2-fp32-b32-infer-processes"
    keras = KerasSettings(backend=KerasBackend.jax, jit_compile=True, steps_per_execution=4)
    label = make_cell(engine=Engine.keras, keras=keras).label
    assert label == "mlp-cpu-fp32-b32-infer-keras-jax-jit_compile-4steps_per_execution"
    assert make_cell(threads=1).label == "mlp-cpu-fp32-b32-infer-1thread"
    assert make_cell(threads=2).label == "mlp-cpu-fp32-b32-infer-2threads"
    own = ModelSpec(name="Net", library=Library.custom, args={"width": 8, "kind": "wide", "sizes": [512] * 9})
    assert make_cell(model=own).label == "Net-cpu-fp32-b32-infer-width=8-kind=wide-sizes=f4424e"
    pretrained = ModelSpec(name="resnet18", library=Library.timm, weights=Weights.pretrained)
    assert make_cell(model=pretrained).label == "resnet18-cpu-fp32-b32-infer-pretrained"


def test_a_label_holds_no_terminal_escape():
    assert make_cell(model=ModelSpec(name="a\x1b[31m\nb")).label == r"a\x1b[31m b-cpu-fp32-b32-infer"
