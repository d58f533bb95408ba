import dataclasses
import json
from enum import StrEnum

import pytest

from accelbench.schema.cell import SERVING, Cell, Engine, KerasSettings, ModelSpec, Protocol, Server, TrainerSettings
from accelbench.schema.serialize import load, plain
from accelbench.schema.setting import declared
from fakes import make_cell

CELL = make_cell(engine=Engine.keras, keras=KerasSettings(), trainer=TrainerSettings())
PATHS = ["suite", "engine", "device", "python", "data.name", *(setting.path for setting in declared(Cell))]
PATHS.remove("keras.backend")  # it has only one value
# Other values of the settings whose default does not tell their type.
OTHER = {"threads": 1, "trainer.gradient_clip_val": 0.5, "model.task": "masked_lm", "model.inputs": ("ids",)}
OTHER |= {"data.train_images": 7, "server.max_batch": 4, "server.percentile": 90.0, "python": "/home/me/old/.venv"}
OTHER |= {"target.accuracy": 0.5, "target.value": 1.5, "target.lower": True, "target.every_steps": 3}


def another(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, dict | tuple):
        return {"width": 8} if isinstance(value, dict) else (*value, 8)
    return next(word for word in type(value) if word != value) if isinstance(value, StrEnum) else f"{value}x"


def with_another(whole, path, value=None):
    """The dataclass with another value at a dotted path."""
    name, _, rest = path.partition(".")
    inner = getattr(whole, name)
    changed = with_another(inner, rest, value) if rest else another(inner) if value is None else value
    return dataclasses.replace(whole, **{name: changed})


# The protocols whose cells differ in these settings; all cells differ in the others.
USED = {"suite": (), "timeout_s": (), "window": {Protocol.window}, "server": SERVING, "target": {Protocol.target}}
USED |= {"warmup": {Protocol.steps}, "steps": {Protocol.steps}, "budget_s": {*SERVING, Protocol.window, Protocol.steps}}


@pytest.mark.parametrize("path", PATHS)
def test_every_setting_is_kept_and_changes_the_id_of_the_cells_that_use_it(path):
    group = path.partition(".")[0]
    for protocol in Protocol:
        cell = dataclasses.replace(CELL, protocol=protocol, mode="generate" if group == "generate" else CELL.mode)
        changed = with_another(cell, path, OTHER.get(path))
        assert changed != cell
        assert (changed.id != cell.id) == (protocol in USED.get(group, Protocol))
    read = load(Cell, json.loads(json.dumps(plain(changed))))
    assert (read, read.id) == (changed, changed.id)
    assert isinstance(read.device, type(make_cell().device))


LABEL = "mlp-cpu-fp32-b32-infer"
OWN = ModelSpec(name="Net", library="custom", args={"width": 8, "kind": "wide", "sizes": [512] * 9})
PRETRAINED = ModelSpec(name="resnet18", library="timm", weights="pretrained")
SERVER = Server(max_delay_ms=2.5, workers=2)
KERAS = KerasSettings(jit_compile=True, steps_per_execution=4)


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        (  # the rate is near the end, which a narrow terminal shows
            {"protocol": Protocol.server, "server": SERVER, "threads": 1, "repeat": 1},
            "mlp-cpu-fp32-b32-infer-server-1thread-2.5max_delay_ms-2workers-50rps-r1",
        ),
        ({"protocol": Protocol.multi_stream, "server": SERVER}, f"{LABEL}-multi_stream-2.5max_delay_ms-2workers"),
        ({"devices": 2, "scaling": "weak"}, "mlp-cpux2-fp32-b32-infer-weak"),
        ({"device": "xla_cpu", "devices": 2, "xla_processes": True}, "mlp-xla_cpux2-fp32-b32-infer-xla_processes"),
        ({"engine": "keras", "keras": KERAS}, f"{LABEL}-keras-jit_compile-4steps_per_execution"),
        ({"protocol": Protocol.steps, "steps": 7, "seed": 4}, f"{LABEL}-7steps-s4"),
        ({"python": "/home/me/new/.venv"}, f"{LABEL}-new"),
        ({"model": OWN}, "Net-cpu-fp32-b32-infer-width=8-kind=wide-sizes=f4424e"),
        ({"model": PRETRAINED}, "resnet18-cpu-fp32-b32-infer-pretrained"),
        ({"model": ModelSpec(name="a\x1b[31m\nb")}, r"a\x1b[31m b-cpu-fp32-b32-infer"),
        ({"options": dataclasses.replace(CELL.options, allocator="jemalloc")}, f"{LABEL}-jemalloc"),
    ],
)
def test_labels_name_what_differs(changes, label):
    assert make_cell().label == LABEL
    assert make_cell(**changes).label == label
    assert make_cell(**changes).id != make_cell().id
