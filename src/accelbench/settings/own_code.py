"""The settings that name the user's own code and files: what each goes with, and names of networks."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from accelbench.devices import packages
from accelbench.engines.targets import check_name
from accelbench.errors import UnknownChoiceError, UserError
from accelbench.project import SAFETENSORS, TORCH_FILES
from accelbench.schema.ranges import MAX_COUNT
from accelbench.schema.secrets import secret_argument
from accelbench.schema.vocab import MODULE, RANDOM, USERS_OWN, Library, Mode, ModelOutput, Protocol, Task, Weights
from accelbench.settings.config import DataConfig, ModelConfig, Optimizer, RunConfig, TrainerConfig

CUSTOM = (Library.custom,)
# Setting of a model -> the libraries that it goes with.
GOES_WITH = {
    "target": tuple(USERS_OWN),
    "factory": tuple(USERS_OWN),
    "constant": tuple(USERS_OWN),
    "output": CUSTOM,
    "batch": CUSTOM,
    "inputs": CUSTOM,
    "loss": CUSTOM,
    "samples": tuple(USERS_OWN),
    "tokens": CUSTOM,
    "task": (Library.transformers,),
    "batch_args": (Library.custom, Library.transformers),
}
# Settings of a model that a LightningModule decides itself.
OF_THE_MODULE = ("optimizer", "learning_rate", "weights")
NEED_BATCH = ("batch_args", "inputs", "samples", "tokens")
SEQ_LEN = 128  # tokens of a sequence for transformers


def check_model(run: RunConfig) -> None:
    """Checks the settings of the user's own network, and names it after its class unless the user gave it a name.

    Raises:
        UserError: a setting is missing or malformed, or goes with another kind of network.
    """
    model, library = run.model, run.model.library
    for name, libraries in GOES_WITH.items():
        if library not in libraries and getattr(model, name) != _default(ModelConfig, name):
            with_these = " or ".join(f"model={each}" for each in sorted(libraries))
            given = _shown(f"model.{name}", getattr(model, name))
            raise UserError(f"{given}: goes with {with_these}, and not with model={model.name}")
    _check_weights(model)
    if run.save_weights and (run.mode, run.protocol) != (Mode.train, Protocol.fit):
        raise UserError("save_weights=true: saves what whole epochs have trained: use mode=train protocol=fit")
    if run.save_weights and library == Library.lightning:
        raise UserError("save_weights=true: goes with other networks than a LightningModule, which saves its own")
    _check_optimizer(model)
    _check_lightning_module(run)
    if library == Library.transformers:
        _check_transformers(run)
    if library not in USERS_OWN:
        return
    for name in ("target", "batch", "loss", "samples", "tokens"):
        _check_path(f"model.{name}", getattr(model, name), is_needed=name == "target")
    if not model.batch:
        for name in NEED_BATCH:
            if name == "samples" and library == Library.lightning:
                continue
            if getattr(model, name) != _default(ModelConfig, name):
                raise UserError(f"{_shown(f'model.{name}', getattr(model, name))}: goes with model.batch")
    elif run.data.name != RANDOM:
        raise UserError(f"model.batch={model.batch}: makes the data itself, so that data={run.data.name} is not used")
    if model.batch and run.mode == Mode.train and not model.loss:
        raise UserError(
            f"mode=train: model.batch={model.batch} needs model.loss, the dotted path of a function (output, batch) -> "
            "scalar; or use mode=infer"
        )
    if model.batch:
        model.output = ModelOutput.any
    model.network = model.target
    if model.name == library and model.target:
        model.name = model.target.rpartition(".")[2]


def check_arguments(run: RunConfig) -> None:
    """Checks that no argument of the user's code holds a secret, since records, labels and reports show arguments.

    Raises:
        UserError: an argument's name or value says that it is a secret.
    """
    groups = {"model.args": run.model.args, "model.batch_args": run.model.batch_args, "data.args": run.data.args}
    for group, arguments in groups.items():
        if (place := secret_argument(arguments)) is not None:
            raise UserError(
                f"{group}.{place}: looks like a secret, which records and reports would show: let your code read it "
                "from an environment variable"
            )


def check_data(run: RunConfig) -> None:
    """Checks the settings of the user's own data.

    Raises:
        UserError: a setting is missing or malformed, or goes with other data or another network.
    """
    data, is_module = run.data, run.data.name == MODULE
    for name in ("target", "args"):
        if not is_module and getattr(data, name) != _default(DataConfig, name):
            raise UserError(f"{_shown(f'data.{name}', getattr(data, name))}: goes with data={MODULE}, not {data.name}")
    if is_module != (run.model.library == Library.lightning):
        raise UserError(
            f"data={MODULE} and model={Library.lightning} go together: a LightningModule and its DataModule"
        )
    if is_module:
        _check_path("data.target", data.target)
        if data.args and not data.target:
            raise UserError(f"{_shown('data.args', data.args)}: goes with data.target")
        for name in ("pipeline", "augment"):
            if (value := getattr(data, name)) != _default(DataConfig, name):
                raise UserError(f"data.{name}={value}: goes with other data; a DataModule makes the batches itself")


def _check_lightning_module(run: RunConfig) -> None:
    """Raises a UserError if a setting was given that a LightningModule decides itself, or that only it has."""
    if run.model.library == Library.lightning:
        for name in OF_THE_MODULE:
            if (value := getattr(run.model, name)) != _default(ModelConfig, name):
                raise UserError(f"model.{name}={value}: goes not with model=lightning, whose module decides it itself")
        return
    for field in fields(TrainerConfig):
        if (value := getattr(run.trainer, field.name)) != field.default:
            raise UserError(f"trainer.{field.name}={value}: goes with model={Library.lightning}")


def _check_weights(model: ModelConfig) -> None:
    """Raises a UserError if there are no such weights; the path of a file becomes an absolute one."""
    given = Path(model.weights)
    installed = packages.version("torch")
    if given.suffix in TORCH_FILES and not packages.is_safe_torch(installed or ""):
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
        model.weights = str(path)
        return
    has_none = model.library in (*USERS_OWN, Library.transformers)
    known = [Weights.none] if has_none else list(Weights)
    if model.weights not in known:
        choices = [*known, f"a file *{SAFETENSORS}"]
        raise UnknownChoiceError("model.weights", model.weights, choices)


def _check_transformers(run: RunConfig) -> None:
    """Raises a UserError if the batches of token ids have other settings than `seq_len`, or the data are not random."""
    args, length = run.model.batch_args, run.model.batch_args.get("seq_len", SEQ_LEN)
    if unknown := set(args) - {"seq_len"}:
        raise UserError(f"model.batch_args.{min(unknown)}: transformers' batches have model.batch_args.seq_len alone")
    if not isinstance(length, int) or isinstance(length, bool) or not 1 <= length <= MAX_COUNT:
        raise UserError(f"model.batch_args.seq_len={length}: should be a whole number from 1 to {MAX_COUNT}")
    if run.data.name != RANDOM:
        raise UserError(f"data={run.data.name}: networks of transformers run on random token ids: use data={RANDOM}")
    if run.model.task is None:
        raise UserError(f"model.task: it is missing. Choose from: {', '.join(Task)}.")
    run.model.batch_args = {"seq_len": length}


def _check_optimizer(model: ModelConfig) -> None:
    """Raises a UserError if there is no such optimiser."""
    if "." in model.optimizer and model.library == Library.custom:
        _check_path("model.optimizer", model.optimizer)
    elif model.optimizer not in list(Optimizer):
        raise UnknownChoiceError("model.optimizer", model.optimizer, Optimizer)


def _check_path(flag: str, path: str | None, *, is_needed: bool = False) -> None:
    """Raises a UserError if `path` is no dotted path, or lies in the standard library, or is missing."""
    if path is None and not is_needed:
        return
    if not path or not all(part.isidentifier() for part in path.split(".")) or "." not in path:
        problem = f"{path} is not one" if path else "it is missing"
        raise UserError(f"{flag}: should be a dotted path, such as my_package.nets.MyNet; {problem}")
    check_name(flag, path)


def _default(config: type, name: str) -> Any:
    """The default of a setting."""
    field = next(field for field in fields(config) if field.name == name)
    return field.default_factory() if callable(field.default_factory) else field.default


def _shown(flag: str, value: Any) -> str:
    """A setting as a user would write it."""
    if isinstance(value, dict):
        return f"{flag}.{next(iter(value))}"
    return f"{flag}={str(value).lower() if isinstance(value, bool) else value}"
