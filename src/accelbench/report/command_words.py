"""A cell -> the words of the command line that measure it again."""

from dataclasses import fields

import yaml

from accelbench.project import workplace
from accelbench.schema.cell import Cell, Options
from accelbench.schema.vocab import RANDOM, Augment, Device, Engine, Library, Pipeline, Protocol

# The libraries whose networks a name tells; for the others the user's own words are needed.
NAMED = {Library.timm, Library.torchvision}


def command_words(cell: Cell) -> list[str] | None:
    """Such as `model=timm model.name=resnet18 mode=infer precision=bf16 batch_size=16`.

    Windows are not named: the command line's own measure longer. None for cells of more than a few words, such as a
    user's own network.
    """
    model, is_named = cell.model, cell.model.library in NAMED
    if cell.protocol != Protocol.window or cell.trainer is not None or cell.data.args or cell.data.path:
        return None
    if cell.keras is not None or cell.devices > 1 or not (is_named or model.library == Library.accelbench):
        return None
    if (model.args or model.batch) if is_named else not _is_as_shipped(cell):
        return None
    words = [f"model={model.library}", f"model.name={model.name}"] if is_named else [f"model={model.name}"]
    usual = Pipeline.host if cell.data.name == RANDOM else Pipeline.array
    named = {
        "data": (cell.data.name, RANDOM if is_named else None),
        "data.pipeline": (cell.data.pipeline, usual),
        "data.augment": (cell.data.augment, Augment.none),
        "engine": (cell.engine, Engine.lightning),
        "device": (cell.device, Device.cpu),
        "mode": (cell.mode, None),
        "precision": (cell.precision, None),
        "batch_size": (cell.batch_size, None),
        "threads": (cell.threads, None),
        **{field.name: (getattr(cell.options, field.name), field.default) for field in fields(Options)},
    }
    for name, (value, default) in named.items():
        if value is not None and value != default:
            words.append(f"{name}={str(value).lower() if isinstance(value, bool) else value}")
    return words


def _is_as_shipped(cell: Cell) -> bool:
    """Whether conf/ has a network of this name with these arguments."""
    path = workplace().conf / "model" / f"{cell.model.name}.yaml"
    if not path.is_file():
        return False
    args = yaml.safe_load(path.read_text()).get("args") or {}
    return bool(args == dict(cell.model.args))
