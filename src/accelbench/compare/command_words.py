"""Makes the command line that measures a cell again."""

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from accelbench.schema import vocab
from accelbench.schema.cell import Cell, unused_by
from accelbench.schema.setting import declared
from accelbench.schema.workload import SHAPES, DataSpec, ModelSpec

# Settings and groups without a word here. The network and the data have their own words. `repeat` differs in every
# process. The others change no speed; `epochs` is for whole epochs, which have no words.
LEFT_OUT = ("model", "data", "trainer", "epochs", "breakdown_s", "timeout_s", "repeat")
# Libraries whose networks are chosen by a name. For others, the user's own words are needed.
NAMED = {vocab.Library.timm, vocab.Library.torchvision}


def command_words(cell: Cell, conf: Path, *, names_cpu: bool = False) -> list[str] | None:
    """Returns words such as `model=timm model.name=resnet18 mode=infer precision=bf16 batch_size=16`.

    The words include the window and `budget_s` if they differ from the defaults, because they change the warm-up
    and how exact the speed is.

    Returns None if a cell needs too many words. Such cells train for whole epochs, use several devices, or have a
    network of conf/ with changed arguments.

    Args:
        conf: the project's folder of settings.
        names_cpu: whether the words include device=cpu, which is not the default on a machine with an accelerator.
    """
    data = DataSpec(name=cell.data.name, pipeline=cell.data.pipeline, augment=cell.data.augment)
    is_usual = cell.protocol not in vocab.EPOCHS and (cell.devices, cell.seed, cell.data) == (1, 0, data)
    model = None if cell.data.name == vocab.OWN_BATCHES else _model_words(cell, conf)  # no file has `measure`'s batches
    if not is_usual or model is None or cell.trainer or cell.xla_processes or cell.save_weights:
        return None
    is_module = cell.model.library == vocab.Library.lightning
    values: dict[str, Any] = {
        "data": cell.data.name,
        "data.pipeline": cell.data.pipeline,
        "data.augment": cell.data.augment,
        "engine": cell.engine,
        "device": cell.device,
    }
    usual: dict[str, Any] = {
        "data": vocab.RANDOM if cell.model.library in {*NAMED, vocab.Library.custom} else None,
        "data.pipeline": vocab.Pipeline.host if cell.data.name == vocab.RANDOM else vocab.Pipeline.array,
        "data.augment": vocab.Augment.none,
        "engine": vocab.Engine.lightning if is_module else vocab.Engine.pytorch,
        "device": None if names_cpu else vocab.Device.cpu,
        "protocol": vocab.Protocol.window,
        "engine.jit_compile": cell.keras is not None and cell.keras.backend == vocab.KerasBackend.jax,
    }
    for setting in declared(Cell):
        group = setting.path.partition(".")[0]
        if group not in {*LEFT_OUT, *unused_by(cell.protocol)}:
            word = setting.path.removeprefix("options.").replace("keras.", "engine.")
            values[word] = setting.value(cell)
            usual.setdefault(word, setting.field.default)
    named = {name: value for name, value in values.items() if value is not None and value != usual[name]}
    return [*model, *(f"{name}={_value_word(value)}" for name, value in named.items())]


def _value_word(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.removesuffix(".0") if isinstance(value, float) else text


def _model_words(cell: Cell, conf: Path) -> list[str] | None:
    """Returns the words of a command line that choose the network. Returns None if no short words choose it."""
    model, library = cell.model, cell.model.library
    is_own = library == vocab.Library.custom
    name = library if is_own or library in NAMED else model.name
    path = conf / "model" / f"{name}.yaml"
    if library not in {*NAMED, vocab.Library.custom, vocab.Library.accelbench} or not path.is_file():
        return None
    content = {} if is_own else _content(path)
    shipped: dict[str, Any] = content.get("model", content)
    # Fields that other words decide: the words of the data set or of the user's batches. With the latter, any output is
    # allowed.
    decided = {"name", "library"}
    if is_own:
        decided |= {"network", "inputs", "output"} if model.batch else {"network", "inputs"}
    elif cell.data.name != vocab.RANDOM:
        decided |= {"input_shape", "num_classes"}
        if "input_shape" in shipped and SHAPES.get(cell.data.name) != tuple(shipped["input_shape"]):
            return None  # the data set's images have another shape than the network needs
    changed: dict[str, Any] = {}
    for field in fields(ModelSpec):
        default = field.default if field.default_factory is MISSING else field.default_factory()
        value, usual = (_plain(item) for item in (getattr(model, field.name), shipped.get(field.name, default)))
        if field.name not in decided and value != usual:
            changed[field.name] = value
    if is_own:
        is_named = model.name == model.definition.rpartition(".")[2] and not model.inputs
        return _own_words(model.definition, changed) if is_named else None
    named = [f"model.name={model.name}"] if library in NAMED else []
    return None if changed else [f"model={name}", *named]


@lru_cache
def _content(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text()) or {}


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _own_words(definition: str, changed: Mapping[str, Any]) -> list[str] | None:
    words = [f"target={definition}"]
    for name, value in changed.items():
        inside = {f"{name}.{key}": inner for key, inner in value.items()} if isinstance(value, Mapping) else {}
        for key, inner in (inside or {name: value}).items():
            words.append(f"{key}={str(inner).replace(', ', ',') if isinstance(inner, list) else inner}")
    if not all(re.fullmatch(r"[\w.]+=[\w.,\[\]/+-]+", word) for word in words):
        return None
    return ["model=custom", *(f"model.{word}" for word in words)]
