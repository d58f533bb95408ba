"""Composes words into configurations and cells, with Hydra's compose API or as a Hydra application."""

import copy
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import FrozenInstanceError, fields, replace
from datetime import datetime
from functools import cache
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from omegaconf.resolvers import oc
from yaml import YAMLError

from accelbench import project
from accelbench.devices.registry import fastest_for
from accelbench.errors import REFUSED, RefusedError, UnknownChoiceError, UserError
from accelbench.rules import NEEDS
from accelbench.schema.cell import SERVING, Cell, Device, Engine, Mode, Protocol
from accelbench.settings import config, params, suites, to_cell
from accelbench.settings.config import GROUPS, LISTS, RunConfig
from accelbench.settings.suites import parse

# Settings that decide the device, or that need a named device.
NAMING_DEVICES = {"device", "executor", "python"}
LAUNCHER = "accelbench"  # the value of hydra/launcher
MULTIRUN = {"-m", "--multirun"}


def cells_of(configs: list[config.RunConfig]) -> tuple[list[Cell], config.SweepOptions]:
    """Returns a sweep's cells, including repeats, and its options. Raises UserError if `configs` are not valid."""
    pairs = [to_cell.cell_and_options(run) for run in configs]
    useless = check_read(configs)
    options = pairs[0][1]
    for _, other in pairs:
        if names := config.differing_options(options, other):
            raise UserError(f"{names}: applies to a whole sweep: give it only one value")
    suites.check_cells(len(pairs) * options.repeats, f"repeats={options.repeats}")
    words = {}
    of_sweep = {field.name for field in fields(options)}
    for run, (cell, _), unread in zip(configs, pairs, useless, strict=True):
        typed = {name: word for name, word in _typed(run).items() if name.split(".")[0] not in of_sweep}
        words[replace(cell, repeat=0).id] = shlex.join(
            word for name, word in typed.items() if name not in unread
        )
    options = replace(options, is_auto=any(one.is_auto for _, one in pairs), words_of=words)
    in_project = params.load(project.workplace().project)
    if options.suite in in_project.suites:
        suite = suites.read_suite(in_project, options.suite)
        options = replace(options, title=suite.title or options.suite, study=suite.study)
    return [
        replace(cell, repeat=cell.repeat + more) for cell, _ in pairs for more in range(options.repeats)
    ], options


def check_read(configs: Iterable[config.RunConfig]) -> list[dict[str, str]]:
    """Raises a UserError if the user typed a setting that affects none of the cells.

    Returns the settings that do not affect a cell, with the reasons, for each of `configs`.
    """
    all_useless = []
    sentences: dict[str, str] = {}
    read: set[str] = set()
    for run in configs:
        typed = _typed(run)
        useless = to_cell.RunFacts(run).useless(NEEDS, typed)
        all_useless.append(useless)
        read |= typed.keys() - useless.keys()
        for name, sentence in useless.items():
            if name not in run.of_profile:
                sentences.setdefault(name, sentence)
    for name, sentence in sentences.items():
        if name not in read:
            raise UserError(sentence)
    return all_useless


def _typed(run: config.RunConfig) -> dict[str, str]:
    """Maps the name of each setting that was asked for to its word."""
    words = [word.lstrip("+") for word in run.words]
    return {word.partition("=")[0]: word for word in words}


def compose(words: Sequence[str]) -> list[RunConfig]:
    """Returns the configuration that `words` describe. With -m, returns one for each combination of values.

    Raises UserError if a word is not a setting, if a value is not one of its setting's choices, or if there are too
    many combinations.
    """
    ready = prepared([word for word in words if word not in MULTIRUN], bool(MULTIRUN & set(words)))
    with resolvers(), hydra.initialize_config_dir(str(project.workplace().conf), version_base="1.3"):
        return list(runs_of(asked(ready)))


def prepared(words: Sequence[str], is_sweep: bool) -> list[str]:
    """Returns `words` in Hydra's syntax. Raises UserError if a word is unreadable or has several values without -m."""
    values = suites.given_in(words := list(map(suites.readable, words)))
    words = suites.with_arguments_added([*words, *_device(values)])
    several = [word for word in words if parse(word).is_sweep_override()]
    for word in several:
        name, _, value = word.partition("=")
        if name in LISTS and "[" not in value:
            raise UserError(f"{word}: should be a list: '{name}=[{value}]'")
    if values.get("suite", suites.NO_SUITE) != suites.NO_SUITE:
        several.append(f"suite={values['suite']}")
    if several and not is_sweep:
        raise UserError(f"{several[0]}: several values need -m: accelbench -m {several[0]}")
    return words


def asked(words: Sequence[str]) -> list[suites.Line]:
    """Returns one list of words for each cell that `words` ask for. Hydra must be initialised.

    Raises UserError if `words`, or the suite that they name, are not valid.
    """
    return list(suites.jobs_of(suites.lines_in(words, params.load(project.workplace().project))))


@contextmanager
def resolvers() -> Iterator[None]:
    """Registers the schema and the resolvers that conf/ uses, such as the default mode of a protocol.

    In the block, `oc.env` is refused: records show settings, and an environment variable may hold a secret.
    """
    ConfigStore.instance().store(name="accelbench_schema", node=structure())
    OmegaConf.register_new_resolver("oc.env", _variable, replace=True)
    modes = {protocol: (Mode.infer if protocol in SERVING else Mode.train).value for protocol in Protocol}
    OmegaConf.register_new_resolver("mode_of", modes.__getitem__, replace=True)
    OmegaConf.register_new_resolver("fastest_for", _fastest_for, replace=True)
    began = f"{datetime.now():%Y-%m-%d_%H-%M-%S}"

    def records_in(out: str | None, suite: str) -> str:
        return str(project.workplace().root / (out or f"{project.RUNS}/{began}-{suite}"))

    OmegaConf.register_new_resolver("records_in", records_in, replace=True)
    try:
        yield
    finally:
        OmegaConf.register_new_resolver("oc.env", oc.env, replace=True)


def _device(values: Mapping[str, str]) -> list[str]:
    """Returns the word `device=auto` if the words leave the device open and this machine has one faster than the CPU.

    Otherwise, returns [].
    """
    if {"suite", *NAMING_DEVICES} & set(values) or fastest_for(
        values.get("engine", Engine.pytorch)
    ) == Device.cpu:
        return []
    return ["device=auto"]


def _fastest_for(engine: str, executor: str) -> str:
    if executor != config.Executor.local:
        raise UserError(
            f"device=auto: means this machine's fastest device: with executor={executor}, name a device"
        )
    return fastest_for(engine)


def runs_of(jobs: Iterable[Sequence[str]]) -> Iterator[RunConfig]:
    """Yields the configuration of each job. A job is a list of words. Hydra must be initialised.

    Raises an error of Hydra or OmegaConf if a value is wrong.
    """
    composed = cache(_composed)  # not across calls, because files may change
    for words in jobs:
        config = copy.deepcopy(composed(*(word for word in words if not _is_value(word))))
        for word in words:
            if _is_value(word):
                override = parse(word)
                OmegaConf.update(config, override.key_or_group, override.value(), merge=True)
        run = OmegaConf.to_object(config)
        assert isinstance(run, RunConfig), "conf/config.yaml starts from the schema"
        yield replace(run, words=tuple(words), of_profile=getattr(words, "of_profile", ()))


def _composed(*choices: str) -> DictConfig:
    """Lets Hydra compose a configuration from the files. It takes 170 ms."""
    composed: DictConfig = hydra.compose("config", list(choices))
    return composed


def _is_value(word: str) -> bool:
    """Whether `word` sets a value. Other words choose a file."""
    name = word.partition("=")[0]
    return name not in GROUPS and not name.startswith(("+", "~")) and not set("/@") & set(name)


@cache  # it takes 60 ms, and Hydra copies it
def structure() -> DictConfig:
    """Returns the schema that conf/config.yaml names first in its defaults. Callers must not change the schema."""

    def unlock(section: DictConfig) -> None:  # OmegaConf makes sections of frozen dataclasses read-only
        OmegaConf.set_readonly(section, None)
        for name in section:
            if OmegaConf.is_dict(section._get_node(name)):
                unlock(section[name])

    whole: DictConfig = OmegaConf.structured(config.RunConfig)
    unlock(whole)
    return whole


def _variable(name: str, *_: Any) -> str:
    raise UserError(
        f"${{oc.env:{name}}}: records and reports would show the variable's value, which may be a secret. Write the "
        "value instead. If it is a secret, let your code read the variable"
    )


def words_in(text: str) -> list[str]:
    """Splits a text into words as a shell does. Raises UserError if this is impossible, as with an open quote."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UserError(f"{text}: not readable as words ({error})") from error


def one_cell(words: str) -> tuple[Cell, config.SweepOptions]:
    """Returns the cell that `words` describe, and the options of its run. `words` are separated as in a shell.

    Raises UserError if `words` describe no cell, several cells or a cell without a speed, or if they contain a flag,
    repeats, or an executor of a cluster.
    """
    separate = words_in(words)
    for word in separate:
        if word.startswith("-") or word.partition("=")[0] in ("repeat", "repeats"):
            raise UserError(
                f"{word}: can't be part of a cell: leave it out. For repeats, use `compare --repeats N`"
            )
    (composed,) = compose(separate)
    config.check_local(composed.executor)
    if composed.protocol in SERVING - {Protocol.offline}:
        raise UserError(
            f"protocol={composed.protocol}: gives no speed to compare: use protocol=window or offline"
        )
    (cell,), options = cells_of([composed])
    return cell, options


def run_hydra(
    measure: Callable[..., object], flags: Sequence[str], words: Sequence[str], *, is_sweep: bool
) -> None:
    """Starts Hydra, which composes configurations from `words` and passes them to `measure`.

    `flags` are Hydra's own. With some of them, such as --cfg, Hydra does not call `measure`. `measure` gets the
    configurations and the folder of the records. It returns the samples/s of each configuration. Raises UserError if a
    word is not a setting, or if a setting has several values without -m.
    """
    dir_word = "hydra.sweep.dir=" if is_sweep else "hydra.run.dir="  # Hydra's name for `out`
    words = [f"out={word.removeprefix(dir_word)}" if word.startswith(dir_word) else word for word in words]
    of_accelbench = prepared([word for word in words if not suites.is_hydras(word)], is_sweep)
    of_hydra = [word for word in words if suites.is_hydras(word)]
    values = dict(word.partition("=")[::2] for word in [*of_hydra, *of_accelbench])
    if (launcher := values.get("hydra/launcher", LAUNCHER)) != LAUNCHER:
        raise UserError(
            f"hydra/launcher={launcher}: only accelbench's launcher is allowed, because it runs one cell after "
            "another: leave hydra/launcher out. To use several machines, add executor=slurm or executor=ray"
        )
    if {"suite", "hydra/sweeper"} <= values.keys():  # only accelbench's sweeper reads suites
        raise UserError("hydra/sweeper: can't be combined with suite=: leave one of the two out")
    main = hydra.main(config_path=str(project.workplace().conf), config_name="config", version_base="1.3")(
        measure
    )
    os.environ["HYDRA_FULL_ERROR"] = "1"  # so that Hydra raises its errors, which `cli` translates
    before = sys.argv
    multirun = ["-m"] if is_sweep else []
    sys.argv = [sys.argv[0], *multirun, *flags, *of_hydra, *of_accelbench]
    try:
        with resolvers():
            main()
    finally:
        sys.argv = before


def user_error_behind(error: BaseException) -> UserError | None:
    """Returns the UserError that caused `error`. If no UserError caused it, translates `error` into one.

    It translates errors of Hydra and OmegaConf. It also translates errors of the system: the current folder is gone, or
    the system refuses to read a file. Returns None for any other error, which is a defect of accelbench.
    """
    chain = _chain(error)
    for cause in chain:
        if isinstance(cause, UserError):
            return cause
        if isinstance(cause, MissingConfigException) and cause.missing_cfg_file and cause.options:
            _, group, name = re.split("((?:hydra/)?[^/]+)/", cause.missing_cfg_file, maxsplit=1)
            more = [f"a library's network, such as torchvision model.name={name}"] if group == "model" else []
            return UnknownChoiceError(group, name, [*cause.options, *more])
    if isinstance(error, YAMLError):  # it names the file and the line
        return UserError(" ".join(str(error).split()))
    if isinstance(error, FileNotFoundError) and error.filename is None:  # `os.getcwd` raised it
        return UserError("the current folder was removed: change to another folder")
    if isinstance(error, OSError) and error.errno in REFUSED:
        return RefusedError(error)
    if not any(
        isinstance(cause, HydraException | OmegaConfBaseException | FrozenInstanceError) for cause in chain
    ):
        return None
    return _translated("\n".join(map(str, chain))) or UserError(str(error).split("\n")[0])


def _translated(text: str) -> UserError | None:
    """Translates `text`, the message of Hydra or OmegaConf. Returns None if the text is of an unknown kind."""
    of_key = re.search(r"(.*)\n +full_key: ([\w.-]+)", text)
    problem, key = of_key.groups() if of_key else ("", "")
    if match := re.search(r"Invalid value '([^']*)', expected one of \[([^]]*)\]", text):
        return UnknownChoiceError(key.removesuffix(".name"), match[1], match[2].split(", "))
    return UserError(f"{key}: {problem}") if key else None


def _chain(error: BaseException | None) -> list[BaseException]:
    """Lists the error, its cause, the cause of its cause, and so on. Causes may form a circle: none is listed twice."""
    causes: list[BaseException] = []
    while error is not None and error not in causes:
        causes.append(error)
        error = error.__cause__ or error.__context__
    return causes
