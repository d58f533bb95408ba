"""A cell -> the words of the command line that measure it again; two cells -> the command that compares them."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

import yaml

from accelbench.project import workplace
from accelbench.schema import vocab
from accelbench.schema.cell import BOUNDS, Cell, KerasSettings, Options, RunSettings, Server, Window
from accelbench.schema.workload import SHAPES, DataSpec, ModelSpec

# Settings without a word of this name: `window`, `server` and `protocol` have words of their own, each process has its
# `repeat`, and the others change no speed (`epochs` is of whole ones, which have no words).
LEFT_OUT = ("window", "server", "epochs", "breakdown_s", "timeout_s", "repeat", "protocol")
# The libraries whose networks a name tells; for the others the user's own words are needed.
NAMED = {vocab.Library.timm, vocab.Library.torchvision}


def command_words(cell: Cell, *, names_cpu: bool = False) -> list[str] | None:
    """Such as `model=timm model.name=resnet18 mode=infer precision=bf16 batch_size=16`.

    Its window and `budget_s` are words too, unless they are the defaults: they change how a cell warms up and how exact
    it is. None for cells that take more than a few words, such as one of whole epochs or on several devices, or of a
    shipped network with arguments that conf/ does not have. `names_cpu`: also the device if it is the CPU, which is not
    the default on a machine with an accelerator.
    """
    data = DataSpec(name=cell.data.name, pipeline=cell.data.pipeline, augment=cell.data.augment)
    is_usual = cell.protocol != vocab.Protocol.fit and (cell.devices, cell.seed, cell.data) == (1, 0, data)
    model = None if cell.data.name == vocab.OWN_BATCHES else _model_words(cell)  # those of `measure` are in no file
    if not is_usual or model is None or cell.trainer or cell.xla_processes or cell.save_weights:
        return None
    keras, window = cell.keras or KerasSettings(), cell.window if cell.protocol == vocab.Protocol.window else Window()
    unused = {*LEFT_OUT, *(BOUNDS[vocab.Protocol.steps] if cell.protocol != vocab.Protocol.steps else ())}
    on_random = cell.model.library in {*NAMED, vocab.Library.custom}
    usual_pipeline = vocab.Pipeline.host if cell.data.name == vocab.RANDOM else vocab.Pipeline.array
    is_module = cell.model.library == vocab.Library.lightning
    usual_engine = vocab.Engine.lightning if is_module else vocab.Engine.pytorch
    settings = {
        "data": (cell.data.name, vocab.RANDOM if on_random else None),
        "data.pipeline": (cell.data.pipeline, usual_pipeline),
        "data.augment": (cell.data.augment, vocab.Augment.none),
        "engine": (cell.engine, usual_engine),
        "engine.backend": (keras.backend, vocab.KerasBackend.tensorflow),
        "engine.jit_compile": (keras.jit_compile, keras.backend == vocab.KerasBackend.jax),
        "engine.steps_per_execution": (keras.steps_per_execution, 1),
        "engine.tpu": (keras.tpu, "local"),
        "device": (cell.device, None if names_cpu else vocab.Device.cpu),
        "protocol": (cell.protocol, vocab.Protocol.window),
        **{
            each.name: (getattr(cell, each.name), None if each.default is MISSING else each.default)
            for each in fields(RunSettings)
            if each.name not in unused
        },
        **{field.name: (getattr(cell.options, field.name), field.default) for field in fields(Options)},
        **{f"window.{each.name}": (getattr(window, each.name), each.default) for each in fields(Window)},
        **{f"server.{each.name}": (getattr(cell.server, each.name), each.default) for each in fields(Server)},
    }
    named = {name: value for name, (value, default) in settings.items() if value is not None and value != default}
    return [*model, *(f"{name}={_value_word(value)}" for name, value in named.items())]


def _value_word(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.removesuffix(".0") if isinstance(value, float) else text


def settling_command(first: Cell, second: Cell, more: Sequence[str] = (), *, names_cpu: bool = False) -> str | None:
    """The command that may say which of two cells is faster, with `more` for both; None if no short one can."""
    # Without `out`: `compare --run` needs a folder without other records.
    sides = [command_words(cell, names_cpu=names_cpu) for cell in (first, second)]
    if None in sides:
        return None
    return f"accelbench compare --run {' '.join(shlex.quote(' '.join([*words, *more])) for words in sides if words)}"


def _model_words(cell: Cell) -> list[str] | None:
    """The words that choose the network; None if there are too many, or if a value of the user's is no word."""
    model, is_own = cell.model, cell.model.library == vocab.Library.custom
    name = model.library if is_own or model.library in NAMED else model.name
    path = workplace().conf / "model" / f"{name}.yaml"
    if model.library not in {*NAMED, vocab.Library.custom, vocab.Library.accelbench} or not path.is_file():
        return None
    content = {} if is_own else yaml.safe_load(path.read_text())
    shipped: dict[str, Any] = content.get("model", content)
    fits = cell.data.name == vocab.RANDOM or SHAPES.get(cell.data.name) == tuple(shipped.get("input_shape", ()))
    if "input_shape" in shipped and not is_own and not fits:
        return None  # without the images' shape, other data than such as its study's are refused
    # What other words tell: the data set, or a batch of the user's own, with which any output will do.
    told = {"name", "library"}
    told |= {"network", "inputs", *(["output"] if model.batch else [])} if is_own else set()
    told |= {"input_shape", "num_classes"} if not is_own and cell.data.name != vocab.RANDOM else set()
    changed: dict[str, Any] = {}
    for field in fields(ModelSpec):
        default = field.default if field.default_factory is MISSING else field.default_factory()
        usual = shipped.get(field.name, default)
        usual = tuple(usual) if isinstance(usual, list) and field.name in ("input_shape", "inputs") else usual
        if field.name not in told and (value := getattr(model, field.name)) != usual:
            changed[field.name] = list(value) if isinstance(value, tuple) else value
    if is_own:
        is_named = model.name == model.definition.rpartition(".")[2] and not model.inputs
        return _own_words(model.definition, changed) if is_named else None
    named = [f"model.name={model.name}"] if model.library in NAMED else []
    return None if changed else [f"model={name}", *named]


def _own_words(definition: str, changed: Mapping[str, Any]) -> list[str] | None:
    words = [f"target={definition}"]
    for name, value in changed.items():
        inside = {f"{name}.{key}": inner for key, inner in value.items()} if isinstance(value, Mapping) else {}
        for key, inner in (inside or {name: value}).items():
            words.append(f"{key}={str(inner).replace(', ', ',') if isinstance(inner, list) else inner}")
    if not all(re.fullmatch(r"[\w.]+=[\w.,\[\]/+-]+", word) for word in words):
        return None
    return ["model=custom", *(f"model.{word}" for word in words)]
