"""Makes a frozen cell and the options of its sweep from a composed configuration, and checks the limits of values."""

import math
import re
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from accelbench.devices import interpreters
from accelbench.devices.cpu import usable_cores
from accelbench.engines.targets import check_path
from accelbench.errors import UnknownChoiceError, UserError
from accelbench.project import SAFETENSORS, TORCH_FILES
from accelbench.rules import MISTAKES, NEEDS, Asked
from accelbench.schema.cell import (
    ARRAYS,
    FOLDER,
    SERVING,
    USERS_OWN,
    Cell,
    DataSpec,
    Engine,
    KerasSettings,
    Library,
    Mode,
    ModelOutput,
    ModelSpec,
    Options,
    Protocol,
    Scaling,
    Weights,
)
from accelbench.schema.secrets import secret_argument
from accelbench.schema.serialize import MAX_COUNT, canonical_json, digest, load, plain, safe
from accelbench.schema.setting import declared
from accelbench.schema.text import MAX_TEXT
from accelbench.settings.config import (
    GROUPS,
    DataConfig,
    Executor,
    LrScale,
    ModelConfig,
    Optimizer,
    RunConfig,
    SweepOptions,
)
from accelbench.settings.suites import PATHS

T = TypeVar("T")

SEQ_LEN = 128  # tokens of a sequence for transformers
SIDES = range(1, 4097)  # pixels
MAX_NAME = 40  # characters of a name for the user's data

LARGEST_QUERY = {Protocol.single_stream: 1, Protocol.multi_stream: 8}  # protocol -> samples of a request
DECLARED = tuple(declared(RunConfig))


class RunFacts(Asked):
    """The settings of a run, including settings without effect."""

    places = {**{group: f"{group}.name" for group in GROUPS}, "model": "model.word"}

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self.run = run

    @cached_property
    def cores(self) -> int:
        return usable_cores()

    @property
    def shared_threads(self) -> int:
        """The number of threads that a server's workers share.

        If `threads` is not set, the workers share all cores of this machine. For a cell that runs on a cluster, the
        cores are unknown here: the number of workers is returned.
        """
        is_here = self.run.executor.name == Executor.local
        return self.run.threads or (self.cores if is_here else self.run.server.workers)

    @property
    def enough_s(self) -> int:
        return math.ceil(1.5 * self.run.server.duration_s)

    @property
    def num_requests(self) -> int:
        from accelbench.serving.server import num_requests  # imports numpy

        return num_requests(self.run.server)

    @property
    def least_requests(self) -> int:
        from accelbench.stats.request_latencies import num_requests_for  # imports numpy

        return num_requests_for(self.run.server.percentile)

    @property
    def long_s(self) -> int:
        return math.ceil(self.least_requests / self.run.server.rate)


def cell_and_options(run: RunConfig) -> tuple[Cell, SweepOptions]:
    """Returns the frozen cell of a composed configuration, and the options of its sweep.

    Raises UserError if a value is out of range, or can't be combined with another setting. The message names the
    setting.
    """
    check_limits(run)
    facts = RunFacts(run)
    for problem in facts.refusals(MISTAKES):
        raise UserError(problem)
    run = _own(_without_unused(run))
    run = _served(replace(run, python=run.python and interpreters.other(run.python)))
    weak = run.scaling == Scaling.weak
    options = _taken(
        SweepOptions,
        run,
        title="Runs from the command line",
        study=None,
        tracking=run.tracking.name,
        data_root=run.data.root,
        is_auto=run.device.is_auto,
        waits_s=None,
        ends_after_s=None,
        words_of={},
    )
    cell = _taken(
        Cell,
        replace(
            run,
            batch_size=run.batch_size * (run.devices if weak else 1),
            scaling=run.scaling if run.devices > 1 else Scaling.strong,
        ),
        engine=run.engine.name,
        device=run.device.name,
        model=_taken(
            ModelSpec,
            run.model,
            learning_rate=_learning_rate(run),
            network=None if run.model.network == run.model.name else run.model.network,
            input_shape=tuple(run.model.input_shape or ModelSpec.input_shape),
        ),
        data=_taken(DataSpec, run.data),
        xla_processes=run.engine.xla_processes,
        options=_taken(Options, run),
        keras=_taken(KerasSettings, run.engine) if run.engine.name == Engine.keras else None,
        trainer=run.trainer if run.model.library == Library.lightning else None,
    )
    return cell, options


def _taken(kind: type[T], settings: Any, **others: Any) -> T:
    """Makes an object of the type `kind`. `others` has some of its fields. The other fields come from `settings`."""
    values = {field.name: getattr(settings, field.name) for field in fields(kind) if field.name not in others}  # type: ignore[arg-type]
    return kind(**others, **{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})


def _learning_rate(run: RunConfig) -> float:
    """Returns the learning rate for the cell's batch size, according to `optimizer.scale`."""
    # Linear: Goyal et al., Accurate, Large Minibatch SGD, 2017; square root: Krizhevsky, One weird trick, 2014.
    model = run.model
    if run.optimizer.scale == LrScale.none:
        return model.learning_rate
    ratio = run.batch_size / model.batch_size
    factor = ratio if run.optimizer.scale == LrScale.linear else math.sqrt(ratio)
    return float(f"{model.learning_rate * factor:.6g}")


def _without_unused(run: RunConfig) -> RunConfig:
    """Sets each setting that has no effect to its default, so that it does not change the cell's id."""
    facts = RunFacts(run)
    for name, _ in facts.unread(NEEDS):
        if facts.is_given(name):
            run = _with_default(run, name.split("."))
    return run


def _with_default(section: Any, path: list[str]) -> Any:
    """Returns `section` with the default at `path`, which leads to a setting or to an inner section."""
    name, *inner = path
    default = getattr(type(section), name, {})  # a mapping, which has no class attribute, is empty by default
    return replace(section, **{name: _with_default(getattr(section, name), inner) if inner else default})


def _served(run: RunConfig) -> RunConfig:
    """Fills in the setting that follows from others: a server's batch size, or `target.lower` of a training."""
    if run.protocol == Protocol.target:
        return replace(run, target=replace(run.target, lower=run.target.is_lower))
    if run.protocol not in SERVING:
        return run
    size = run.server.max_batch or run.batch_size
    size = min(size, LARGEST_QUERY.get(run.protocol, size))
    return replace(run, batch_size=size, server=replace(run.server, max_batch=None))


def check_limits(run: RunConfig) -> None:
    """Raises a UserError if a value is out of range. The message names the setting and the range."""
    try:
        load(RunConfig, plain(run))
    except ValueError as error:
        raise UserError(str(error)) from None
    for setting in DECLARED:
        if setting.path not in PATHS:  # no record keeps them
            _check_content(setting.path, setting.value(run))


def _check_content(flag: str, value: Any) -> None:
    """Raises a UserError if the value is not finite, is too long, or has characters that can't be shown."""
    if value is None or isinstance(value, bool | int):
        return
    try:
        text = canonical_json(value)
    except ValueError:
        raise UserError(f"{flag}: should be finite, not {value!r}") from None
    if canonical_json(safe(value)) != text:
        raise UserError(f"{flag}: has more than {MAX_TEXT} characters, or characters that can't be shown")


def _own(run: RunConfig) -> RunConfig:
    """Checks the settings of the user's own network and data, and fills in their names and absolute paths.

    The name of the user's data depends on their path and image size. So each path and each image size has its own
    folder of prepared data.

    Raises UserError if a setting is malformed, or if an argument of the user's code looks like a secret, which records
    would show.
    """
    model = run.model
    data = run.data
    is_own_function = "." in model.optimizer and model.library == Library.custom
    if model.optimizer not in list(Optimizer) and not is_own_function:
        raise UnknownChoiceError("model.optimizer", model.optimizer, Optimizer)
    model = replace(model, weights=_weights(model))
    if model.library == Library.transformers and run.mode != Mode.generate:
        model = replace(model, batch_args=_of_transformers(model))
    elif model.library in USERS_OWN:
        name = str(model.target).rpartition(".")[2] if model.name == model.library else model.name
        output = ModelOutput.any if model.batch else model.output
        model = replace(model, network=model.target, name=name, output=output)
    if data.name in (FOLDER, ARRAYS):
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
        why = "only safetensors are read: convert the file, as docs/your-own-network.md shows"
        raise UserError(f"model.weights={weights}: {why}")
    if weights.suffix == SAFETENSORS:
        path = Path.cwd() / weights.expanduser()
        if not path.is_file():
            raise UserError(f"model.weights={weights}: there is no such file")
        return str(path)
    has_none = model.library in (*USERS_OWN, Library.transformers)
    choices = [Weights.none] if has_none else list(Weights)
    if model.weights not in choices:
        raise UnknownChoiceError("model.weights", model.weights, [*choices, f"a file *{SAFETENSORS}"])
    return model.weights


def _of_transformers(model: ModelConfig) -> dict[str, int]:
    length = model.batch_args.get("seq_len", SEQ_LEN)
    if unknown := set(model.batch_args) - {"seq_len"}:
        raise UserError(
            f"model.batch_args.{min(unknown)}: transformers' batches have only model.batch_args.seq_len"
        )
    if type(length) is not int or not 1 <= length <= MAX_COUNT:
        raise UserError(f"model.batch_args.seq_len={length}: should be a whole number from 1 to {MAX_COUNT}")
    return {"seq_len": length}


def _named(data: DataConfig) -> DataConfig:
    is_folder = data.name == FOLDER
    path = (Path.cwd() / Path(str(data.path)).expanduser()).resolve()
    if not (path.is_dir() if is_folder else path.is_file()):
        raise UserError(f"data.path={data.path}: there is no such {'folder' if is_folder else 'file'}")
    if is_folder and data.image_size not in SIDES:
        raise UserError(f"data.image_size={data.image_size}: should be a whole number from 1 to {SIDES[-1]}")
    args = {"image_size": data.image_size} if is_folder else data.args
    stem = re.sub(r"\W+", "_", path.stem, flags=re.ASCII).strip("_")[:MAX_NAME] or data.name
    name = f"{stem}-{digest([data.name, str(path), args])[:8]}"
    return replace(data, path=str(path), name=name, args=args)
