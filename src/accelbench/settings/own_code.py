"""The settings that name the user's own code, data and files: what each goes with, and the names that they give."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from accelbench.engines.targets import check_path
from accelbench.errors import UnknownChoiceError, UserError
from accelbench.project import SAFETENSORS, TORCH_FILES
from accelbench.schema import vocab
from accelbench.schema.ranges import MAX_COUNT
from accelbench.schema.secrets import secret_argument
from accelbench.schema.serialize import digest
from accelbench.settings.config import DataConfig, ModelConfig, Optimizer, RunConfig

OWN, CUSTOM = tuple(sorted(vocab.USERS_OWN)), (vocab.Library.custom,)
# Setting of a model -> the libraries that it goes with.
MODEL_GOES_WITH = {
    **dict.fromkeys(("target", "factory", "constant", "samples"), OWN),
    **dict.fromkeys(("output", "batch", "collate", "inputs", "loss", "metric", "tokens"), CUSTOM),
    "task": (vocab.Library.transformers,),
    "batch_args": (vocab.Library.custom, vocab.Library.transformers),
}
OF_THE_MODULE = ("optimizer", "learning_rate", "weights")  # settings of a model that a LightningModule decides itself
# Setting of data -> the data sets that it goes with.
DATA_GOES_WITH = {
    "target": (vocab.MODULE,),
    "args": (vocab.MODULE,),
    "path": (vocab.FOLDER, vocab.ARRAYS),
    "image_size": (vocab.FOLDER,),
}
SEQ_LEN = 128  # tokens of a sequence for transformers
SIDES = range(1, 4097)  # pixels
MAX_NAME = 40  # characters of the name of the user's own data


def checked(run: RunConfig) -> RunConfig:
    """The settings with a name and absolute paths for the user's own network and data.

    Data from another path, or of another image size, get another name, and so another folder of prepared arrays.

    Raises UserError: a setting is missing or malformed, or goes with other settings, or an argument of the user's code
    holds a secret, which records, labels and reports would show.
    """
    model, data = _model(run), _data(run)
    paths = model.own_code | ({"data.target": data.target} if data.target is not None else {})
    for flag, path in paths.items():
        check_path(flag, path)
    groups = {"model.args": model.args, "model.batch_args": model.batch_args, "data.args": data.args}
    for group, arguments in groups.items():
        if (place := secret_argument(arguments)) is not None:
            raise UserError(
                f"{group}.{place}: looks like a secret, which records and reports would show: let your code read it "
                "from an environment variable"
            )
    return replace(run, model=model, data=data)


def _model(run: RunConfig) -> ModelConfig:
    model, library = run.model, run.model.library
    for name, libraries in MODEL_GOES_WITH.items():
        if library not in libraries:
            these = " or ".join(f"model={each}" for each in libraries)
            refuse("model", model, f"goes with {these}, and not with model={model.name}", name)
    model = _with_weights(model)
    if run.save_weights and (run.mode, run.protocol) != (vocab.Mode.train, vocab.Protocol.fit):
        raise UserError("save_weights=true: saves what whole epochs have trained: use mode=train protocol=fit")
    if model.optimizer not in list(Optimizer) and not ("." in model.optimizer and library == vocab.Library.custom):
        raise UnknownChoiceError("model.optimizer", model.optimizer, Optimizer)
    if library == vocab.Library.lightning:
        refuse("model", model, "goes not with model=lightning, whose module decides it itself", *OF_THE_MODULE)
    else:
        refuse("trainer", run.trainer, f"goes with model={vocab.Library.lightning}")
    if library == vocab.Library.transformers:
        return _of_transformers(model, run.data.name)
    return _users_own(model, run) if library in vocab.USERS_OWN else model


def _users_own(model: ModelConfig, run: RunConfig) -> ModelConfig:
    target = model.target
    if not target:
        raise UserError("model.target: it is missing: the dotted path of your class, such as my_package.nets.MyNet")
    name = target.rpartition(".")[2] if model.name == model.library else model.name
    model = replace(model, network=target, name=name)
    if not model.batch:
        of_custom = ["samples"] if model.library == vocab.Library.custom else []
        refuse("model", model, "goes with model.batch", "batch_args", "collate", "inputs", "tokens", *of_custom)
        return model
    if run.data.name != vocab.RANDOM:
        raise UserError(f"model.batch={model.batch}: makes the data itself, so that data={run.data.name} is not used")
    if run.mode == vocab.Mode.train and not model.loss:
        raise UserError(
            f"mode=train: model.batch={model.batch} needs model.loss, the dotted path of a function (output, batch) -> "
            "scalar; or use mode=infer"
        )
    return replace(model, output=vocab.ModelOutput.any)


def _with_weights(model: ModelConfig) -> ModelConfig:
    given = Path(model.weights)
    if given.suffix in TORCH_FILES:
        raise UserError(
            f"model.weights={given}: is not read, since a hostile file of this kind may corrupt torch's memory "
            "(CVE-2026-24747). Convert one that you trust, with torch 2.10 or newer:\n"
            "  from safetensors.torch import save_file\n"
            f"  save_file(torch.load({given.name!r}, weights_only=True), {given.with_suffix(SAFETENSORS).name!r})"
        )
    if given.suffix == SAFETENSORS:
        path = Path.cwd() / given.expanduser()
        if not path.is_file():
            raise UserError(f"model.weights={given}: there is no such file")
        return replace(model, weights=str(path))
    has_none = model.library in (*vocab.USERS_OWN, vocab.Library.transformers)
    known = [vocab.Weights.none] if has_none else list(vocab.Weights)
    if model.weights not in known:
        raise UnknownChoiceError("model.weights", model.weights, [*known, f"a file *{SAFETENSORS}"])
    return model


def _of_transformers(model: ModelConfig, data: str) -> ModelConfig:
    length = model.batch_args.get("seq_len", SEQ_LEN)
    if unknown := set(model.batch_args) - {"seq_len"}:
        raise UserError(f"model.batch_args.{min(unknown)}: transformers' batches have model.batch_args.seq_len alone")
    if type(length) is not int or not 1 <= length <= MAX_COUNT:
        raise UserError(f"model.batch_args.seq_len={length}: should be a whole number from 1 to {MAX_COUNT}")
    if data != vocab.RANDOM:
        raise UserError(f"data={data}: networks of transformers run on random token ids: use data={vocab.RANDOM}")
    if model.task is None:
        raise UserError(f"model.task: it is missing. Choose from: {', '.join(vocab.Task)}.")
    return replace(model, batch_args={"seq_len": length})


def _data(run: RunConfig) -> DataConfig:
    data = run.data
    for name, sets in DATA_GOES_WITH.items():
        if data.name not in sets:
            these = " or ".join(f"data={each}" for each in sets)
            refuse("data", data, f"goes with {these}, not {data.name}", name)
    if (data.name == vocab.MODULE) != (run.model.library == vocab.Library.lightning):
        raise UserError(f"data={vocab.MODULE} and model=lightning go together: a LightningModule and its DataModule")
    if data.name == vocab.MODULE:
        if not data.target:
            refuse("data", data, "goes with data.target", "args")
        why = "goes with other data; a DataModule makes the batches itself"
        refuse("data", data, why, "pipeline", "augment", "train_images", "pinned")
    if data.name == vocab.RANDOM:
        refuse("data", data, "goes with a data set, not random", "train_images")
    return _named(data) if data.name in (vocab.FOLDER, vocab.ARRAYS) else data


def _named(data: DataConfig) -> DataConfig:
    is_folder = data.name == vocab.FOLDER
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


def refuse(group: str, settings: Any, why: str, *names: str) -> None:
    """Raises a UserError if the user gave one of these settings, by default any of the group."""
    for name in names or vars(settings):
        value, default = getattr(settings, name), getattr(type(settings)(), name)
        value = tuple(value) if isinstance(value, list) else value  # OmegaConf's
        if value != default:
            shown = str(value).lower() if isinstance(value, bool) else value
            word = f".{next(iter(value))}" if isinstance(value, dict) else f"={shown}"
            raise UserError(f"{group}.{name}{word}: {why}")
