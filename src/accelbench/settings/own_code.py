"""Checks the settings that name the user's own code, data and files, and derives names from them."""

import re
from dataclasses import replace
from pathlib import Path

from accelbench.engines.targets import check_path
from accelbench.errors import UnknownChoiceError, UserError
from accelbench.project import SAFETENSORS, TORCH_FILES
from accelbench.schema import vocab
from accelbench.schema.ranges import MAX_COUNT
from accelbench.schema.secrets import secret_argument
from accelbench.schema.serialize import digest
from accelbench.settings.config import DataConfig, ModelConfig, Optimizer, RunConfig

SEQ_LEN = 128  # tokens of a sequence for transformers
SIDES = range(1, 4097)  # pixels
MAX_NAME = 40  # characters of a name for the user's data


def checked(run: RunConfig) -> RunConfig:
    """Checks the settings of the user's own network and data, and fills in their names and absolute paths.

    The name of the user's data depends on their path and image size. So each path and each image size has its own
    folder of prepared data.

    Raises UserError if a setting is malformed, or if an argument of the user's code looks like a secret, which records
    would show.
    """
    model = run.model
    data = run.data
    is_own_function = "." in model.optimizer and model.library == vocab.Library.custom
    if model.optimizer not in list(Optimizer) and not is_own_function:
        raise UnknownChoiceError("model.optimizer", model.optimizer, Optimizer)
    model = replace(model, weights=_weights(model))
    if model.library == vocab.Library.transformers and run.mode != vocab.Mode.generate:
        model = replace(model, batch_args=_of_transformers(model))
    elif model.library in vocab.USERS_OWN:
        name = str(model.target).rpartition(".")[2] if model.name == model.library else model.name
        output = vocab.ModelOutput.any if model.batch else model.output
        model = replace(model, network=model.target, name=name, output=output)
    if data.name in (vocab.FOLDER, vocab.ARRAYS):
        data = _named(data)
    for flag, path in model.own_code.items():
        check_path(flag, path)
    if data.target is not None:
        check_path("data.target", data.target)
    groups = {"model.args": model.args, "model.batch_args": model.batch_args, "data.args": data.args}
    for group, arguments in groups.items():
        if (named := secret_argument(arguments)) is not None:
            raise UserError(
                f"{group}.{named}: looks like a secret, and records and reports would show it: let your code read the "
                "secret from an environment variable"
            )
    return replace(run, model=model, data=data)


def _weights(model: ModelConfig) -> str:
    """Returns `model.weights`, as an absolute path if it is a file. Raises UserError: the value can't be used."""
    weights = Path(model.weights)
    if weights.suffix in TORCH_FILES:
        raise UserError(
            f"model.weights={weights}: is not read, because a hostile file of this kind may corrupt torch's memory "
            "(CVE-2026-24747). If you trust the file, convert it to safetensors: docs/your-own-network.md shows how"
        )
    if weights.suffix == SAFETENSORS:
        path = Path.cwd() / weights.expanduser()
        if not path.is_file():
            raise UserError(f"model.weights={weights}: there is no such file")
        return str(path)
    has_none = model.library in (*vocab.USERS_OWN, vocab.Library.transformers)
    choices = [vocab.Weights.none] if has_none else list(vocab.Weights)
    if model.weights not in choices:
        raise UnknownChoiceError("model.weights", model.weights, [*choices, f"a file *{SAFETENSORS}"])
    return model.weights


def _of_transformers(model: ModelConfig) -> dict[str, int]:
    length = model.batch_args.get("seq_len", SEQ_LEN)
    if unknown := set(model.batch_args) - {"seq_len"}:
        raise UserError(f"model.batch_args.{min(unknown)}: transformers' batches have only model.batch_args.seq_len")
    if type(length) is not int or not 1 <= length <= MAX_COUNT:
        raise UserError(f"model.batch_args.seq_len={length}: should be a whole number from 1 to {MAX_COUNT}")
    return {"seq_len": length}


def _named(data: DataConfig) -> DataConfig:
    is_folder = data.name == vocab.FOLDER
    path = (Path.cwd() / Path(str(data.path)).expanduser()).resolve()
    if not (path.is_dir() if is_folder else path.is_file()):
        raise UserError(f"data.path={data.path}: there is no such {'folder' if is_folder else 'file'}")
    if is_folder and data.image_size not in SIDES:
        raise UserError(f"data.image_size={data.image_size}: should be a whole number from 1 to {SIDES[-1]}")
    args = {"image_size": data.image_size} if is_folder else data.args
    stem = re.sub(r"\W+", "_", path.stem, flags=re.ASCII).strip("_")[:MAX_NAME] or data.name
    name = f"{stem}-{digest([data.name, str(path), args])[:8]}"
    return replace(data, path=str(path), name=name, args=args)
