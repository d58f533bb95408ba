"""The settings that name the user's own code, data and files: what each goes with, and the names that they give."""

import re
from collections.abc import Collection
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

from accelbench.devices import packages
from accelbench.engines.targets import check_name
from accelbench.errors import UnknownChoiceError, UserError
from accelbench.project import SAFETENSORS, TORCH_FILES
from accelbench.schema.ranges import MAX_COUNT
from accelbench.schema.secrets import secret_argument
from accelbench.schema.serialize import digest
from accelbench.schema.vocab import (
    ARRAYS,
    FOLDER,
    MODULE,
    RANDOM,
    USERS_OWN,
    Library,
    Mode,
    ModelOutput,
    Protocol,
    Task,
    Weights,
)
from accelbench.settings.config import DataConfig, ModelConfig, Optimizer, RunConfig

OWN, CUSTOM = tuple(sorted(USERS_OWN)), (Library.custom,)
# Setting of a model -> the libraries that it goes with.
GOES_WITH = {
    **dict.fromkeys(("target", "factory", "constant", "samples"), OWN),
    **dict.fromkeys(("output", "batch", "inputs", "loss", "tokens"), CUSTOM),
    "task": (Library.transformers,),
    "batch_args": (Library.custom, Library.transformers),
}
OF_THE_MODULE = ("optimizer", "learning_rate", "weights")  # settings of a model that a LightningModule decides itself
SEQ_LEN = 128  # tokens of a sequence for transformers
SIDES = range(1, 4097)  # pixels
MAX_NAME = 40  # characters of the name of the user's own data


def checked_model(run: RunConfig) -> ModelConfig:
    """The settings of the network, with a name and absolute paths for the user's own.

    Raises UserError: a setting is missing or malformed, or goes with another kind of network.
    """
    model, library = run.model, run.model.library
    for name, libraries in GOES_WITH.items():
        if library not in libraries:
            with_these = " or ".join(f"model={each}" for each in libraries)
            _refuse("model", model, [name], f"goes with {with_these}, and not with model={model.name}")
    model = _with_weights(model)
    if run.save_weights and (run.mode, run.protocol) != (Mode.train, Protocol.fit):
        raise UserError("save_weights=true: saves what whole epochs have trained: use mode=train protocol=fit")
    if run.save_weights and library == Library.lightning:
        raise UserError("save_weights=true: goes with other networks than a LightningModule, which saves its own")
    if "." in model.optimizer and library == Library.custom:
        _check_path("model.optimizer", model.optimizer)
    elif model.optimizer not in list(Optimizer):
        raise UnknownChoiceError("model.optimizer", model.optimizer, Optimizer)
    if library == Library.lightning:
        _refuse("model", model, OF_THE_MODULE, "goes not with model=lightning, whose module decides it itself")
    else:
        _refuse("trainer", run.trainer, vars(run.trainer), f"goes with model={Library.lightning}")
    if library == Library.transformers:
        return _of_transformers(model, run.data.name)
    return _users_own(model, run) if library in USERS_OWN else model


def checked_data(run: RunConfig) -> DataConfig:
    """The settings of the data, with a name and an absolute path for the user's own.

    Data from another path, or of another image size, get another name, and so another folder of prepared arrays.

    Raises UserError: a setting is missing or malformed, or goes with other data or another network.
    """
    data, is_module = run.data, run.data.name == MODULE
    if not is_module:
        _refuse("data", data, ("target", "args"), f"goes with data={MODULE}, not {data.name}")
    if is_module != (run.model.library == Library.lightning):
        raise UserError(
            f"data={MODULE} and model={Library.lightning} go together: a LightningModule and its DataModule"
        )
    if is_module:
        _check_path("data.target", data.target)
        if not data.target:
            _refuse("data", data, ["args"], "goes with data.target")
        _refuse("data", data, ("pipeline", "augment"), "goes with other data; a DataModule makes the batches itself")
    if data.name != FOLDER:
        _refuse("data", data, ["image_size"], f"goes with data={FOLDER}, not {data.name}")
    if data.name in (FOLDER, ARRAYS):
        return _named(data)
    _refuse("data", data, ["path"], f"goes with data={FOLDER} or data={ARRAYS}, not {data.name}")
    return data


def check_arguments(run: RunConfig) -> None:
    """Checks that no argument of the user's code holds a secret, since records, labels and reports show arguments.

    Raises UserError: an argument's name or value says that it is a secret.
    """
    groups = {"model.args": run.model.args, "model.batch_args": run.model.batch_args, "data.args": run.data.args}
    for group, arguments in groups.items():
        if (place := secret_argument(arguments)) is not None:
            raise UserError(
                f"{group}.{place}: looks like a secret, which records and reports would show: let your code read it "
                "from an environment variable"
            )


def _users_own(model: ModelConfig, run: RunConfig) -> ModelConfig:
    for name in ("target", "batch", "loss", "samples", "tokens"):
        _check_path(f"model.{name}", getattr(model, name), is_needed=name == "target")
    is_unnamed = model.name == model.library and model.target
    model = replace(
        model, network=model.target, name=model.target.rpartition(".")[2] if is_unnamed and model.target else model.name
    )
    if not model.batch:
        of_batch = ("batch_args", "inputs", "tokens", *(["samples"] if model.library == Library.custom else []))
        _refuse("model", model, of_batch, "goes with model.batch")
        return model
    if run.data.name != RANDOM:
        raise UserError(f"model.batch={model.batch}: makes the data itself, so that data={run.data.name} is not used")
    if run.mode == Mode.train and not model.loss:
        raise UserError(
            f"mode=train: model.batch={model.batch} needs model.loss, the dotted path of a function (output, batch) -> "
            "scalar; or use mode=infer"
        )
    return replace(model, output=ModelOutput.any)


def _with_weights(model: ModelConfig) -> ModelConfig:
    given, installed = Path(model.weights), packages.version("torch") or ""
    if given.suffix in TORCH_FILES and not packages.is_safe_torch(installed):
        raise UserError(
            f"model.weights={given}: torch 2.10 or newer is needed to read it, and here is {installed or 'none'}: a "
            "hostile file of this kind corrupts the memory of an older one (CVE-2026-24747). Convert it elsewhere, "
            "with a later torch:\n"
            "  from safetensors.torch import save_file\n"
            f"  save_file(torch.load({given.name!r}, weights_only=True), {given.with_suffix(SAFETENSORS).name!r})"
        )
    if given.suffix in (SAFETENSORS, *TORCH_FILES):
        path = Path.cwd() / given.expanduser()
        if not path.is_file():
            raise UserError(f"model.weights={given}: there is no such file")
        return replace(model, weights=str(path))
    has_none = model.library in (*USERS_OWN, Library.transformers)
    known = [Weights.none] if has_none else list(Weights)
    if model.weights not in known:
        raise UnknownChoiceError("model.weights", model.weights, [*known, f"a file *{SAFETENSORS}"])
    return model


def _of_transformers(model: ModelConfig, data: str) -> ModelConfig:
    length = model.batch_args.get("seq_len", SEQ_LEN)
    if unknown := set(model.batch_args) - {"seq_len"}:
        raise UserError(f"model.batch_args.{min(unknown)}: transformers' batches have model.batch_args.seq_len alone")
    if type(length) is not int or not 1 <= length <= MAX_COUNT:
        raise UserError(f"model.batch_args.seq_len={length}: should be a whole number from 1 to {MAX_COUNT}")
    if data != RANDOM:
        raise UserError(f"data={data}: networks of transformers run on random token ids: use data={RANDOM}")
    if model.task is None:
        raise UserError(f"model.task: it is missing. Choose from: {', '.join(Task)}.")
    return replace(model, batch_args={"seq_len": length})


def _named(data: DataConfig) -> DataConfig:
    is_folder = data.name == FOLDER
    if not data.path:
        what = "a folder with a folder of pictures for each class" if is_folder else "an .npz file"
        raise UserError(f"data.path: it is missing: data={data.name} needs the path of {what}")
    path = (Path.cwd() / Path(data.path).expanduser()).resolve()
    if not (path.is_dir() if is_folder else path.is_file()):
        raise UserError(f"data.path={data.path}: there is no such {'folder' if is_folder else 'file'}")
    if is_folder and data.image_size not in SIDES:
        raise UserError(f"data.image_size={data.image_size}: should be a whole number from 1 to {SIDES[-1]}")
    args = {"image_size": data.image_size} if is_folder else data.args
    stem = re.sub(r"\W+", "_", path.stem, flags=re.ASCII).strip("_")[:MAX_NAME] or data.name
    name = f"{stem}-{digest([data.name, str(path), args])[:8]}"
    return replace(data, path=str(path), name=name, args=args)


def _check_path(flag: str, path: str | None, *, is_needed: bool = False) -> None:
    if path is None and not is_needed:
        return
    if not path or not all(part.isidentifier() for part in path.split(".")) or "." not in path:
        problem = f"{path} is not one" if path else "it is missing"
        raise UserError(f"{flag}: should be a dotted path, such as my_package.nets.MyNet; {problem}")
    check_name(flag, path)


def _refuse(group: str, settings: Any, names: Collection[str], why: str) -> None:
    """Raises a UserError for the first of the settings `names` that the user gave."""
    for field in fields(settings):
        value = getattr(settings, field.name)
        default = field.default if field.default_factory is MISSING else field.default_factory()
        value = tuple(value) if isinstance(value, list) else value  # OmegaConf's
        if field.name in names and value != default:
            word = f".{next(iter(value))}" if isinstance(value, dict) else f"={value_word(value)}"
            raise UserError(f"{group}.{field.name}{word}: {why}")


def value_word(value: object) -> str:
    """A value as the command line has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
