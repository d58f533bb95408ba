"""Our Hydra launcher: composes all configurations of a multirun and hands them over in one call.

Hydra looks for plugins in the namespace package `hydra_plugins`, and only there.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

from accelbench.settings import compose, suites
from accelbench.settings.config import GROUPS, RunConfig


class SweepLauncher(Launcher):
    """Composes the configuration of every job, then hands all of them to the task function in one call.

    Hydra's own launchers call it once per job: a sweep could then not be planned as a whole.
    """

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config
        self.parse = cache(OverridesParser.create().parse_override)

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Calls the task function once, with a `RunConfig` for each job that the suite does not exclude.

        Returns no results, since nothing has run yet.
        """
        self.task_function(list(self._runs(job_overrides)))
        return []

    def _runs(self, job_overrides: Sequence[Sequence[str]]) -> Iterator[RunConfig]:
        composer = _Composer(self._load)
        # Each job of a sweep sets the same names, so that of each choice of files, the next job only needs the values
        # that differ: a new configuration takes 4 ms, and another 2 ms to be typed.
        latest: dict[tuple[str, ...], _Job] = {}
        for overrides in job_overrides:
            choices = tuple(word for word in overrides if not _is_value(word))
            values = {word.partition("=")[0]: word for word in overrides if _is_value(word)}
            parsed = {name: self.parse(word) for name, word in values.items()}
            merges = any(isinstance(value.value(), dict) for value in parsed.values())  # with what is there
            if merges or choices not in latest:
                latest[choices] = _Job(composer.compose(choices))
            job = latest[choices]
            for name in _differing(values, job.values):
                OmegaConf.update(job.config, parsed[name].key_or_group, parsed[name].value(), merge=True)
            job.values = values
            if not suites.is_excluded(job.config, suites.RULES.get()):
                yield job.run({name: parsed[name].key_or_group for name in values})

    def _load(self, choices: Sequence[str]) -> DictConfig:
        config: DictConfig = self.hydra_context.config_loader.load_sweep_config(self.config, list(choices))
        with open_dict(config):
            del config["hydra"]
        return config


@dataclass
class _Job:
    """The latest job of a choice of files."""

    config: DictConfig
    values: dict[str, str] = field(default_factory=dict)  # name -> the word that sets it, in `config`
    _typed: RunConfig | None = None  # of the latest job that was not excluded
    _typed_values: dict[str, str] = field(default_factory=dict)

    def run(self, paths: dict[str, str]) -> RunConfig:
        """The configuration with plain values; `paths` says where each name is in it."""
        if self._typed is None:
            self._typed = compose.typed(self.config)
        else:
            changed = _differing(self.values, self._typed_values)
            self._typed = compose.updated(self._typed, self.config, [paths[name] for name in changed])
        self._typed_values = self.values
        return self._typed


def _differing(values: dict[str, str], present: dict[str, str]) -> list[str]:
    """The names whose words are not those of `present`."""
    return [name for name, word in values.items() if present.get(name) != word]


class _Composer:
    """Composes every combination of files from a composition of each file, since Hydra takes 60 ms for each."""

    def __init__(self, load: Callable[[tuple[str, ...]], DictConfig]) -> None:
        self._load = load  # composes a combination, given as words such as `model=cnn`
        self._first: tuple[str, ...] = ()
        self._of_word: dict[str, DictConfig | None] = {}  # the section that a word chooses; None: it changes more

    def compose(self, choices: tuple[str, ...]) -> DictConfig:
        """A new configuration of the files that `choices` name; all calls name the same groups in the same order."""
        if not self._first:
            self._first, self._base = choices, self._load(choices)
        config = copy.deepcopy(self._base)
        for number, (word, first) in enumerate(zip(choices, self._first, strict=True)):
            if word != first:
                if word not in self._of_word:
                    self._of_word[word] = self._section(word, number)
                if (section := self._of_word[word]) is None:
                    return self._load(choices)
                config[word.partition("=")[0]] = section
        return config

    def _section(self, word: str, number: int) -> DictConfig | None:
        """What the file that `word` names sets; None if it sets more than its section, as model=timm sets the data."""
        group = word.partition("=")[0]
        config = self._load((*self._first[:number], word, *self._first[number + 1 :]))
        if group not in GROUPS or _without(config, group) != _without(self._base, group):
            return None
        section: DictConfig = config[group]
        return section


def _without(config: DictConfig, group: str) -> dict[Any, Any]:
    """The rest of the configuration, its interpolations as written."""
    settings = OmegaConf.to_container(config)
    assert isinstance(settings, dict), "a configuration maps names to settings"
    return {name: setting for name, setting in settings.items() if name != group}


def _is_value(override: str) -> bool:
    """Whether `override` sets a value rather than choosing a file, which takes Hydra 60 ms to compose."""
    name = override.partition("=")[0]
    return name not in GROUPS and not name.startswith(("hydra", "+", "~")) and not set("/@") & set(name)


class SweepSweeper(BasicSweeper):
    """Hydra's sweeper without the trial composition of every job, since the launcher composes all of them first."""

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Does nothing: see the class."""


SWEEPER = {"_target_": f"{__name__}.{SweepSweeper.__name__}", "max_batch_size": None, "params": None}
ConfigStore.instance().store(group="hydra/sweeper", name="accelbench", node=SWEEPER)
LAUNCHER = {"_target_": f"{__name__}.{SweepLauncher.__name__}"}
ConfigStore.instance().store(group="hydra/launcher", name="accelbench", node=LAUNCHER)
