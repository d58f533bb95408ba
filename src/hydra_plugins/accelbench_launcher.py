"""Our Hydra launcher: composes all configurations of a multirun and hands them over in one call.

Hydra looks for plugins in the namespace package `hydra_plugins`, and only there.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

from accelbench.settings.config import GROUPS, RunConfig, typed


class SweepLauncher(Launcher):
    """Composes the configuration of every job, then hands all of them to the task function in one call.

    Hydra's own launchers call it once per job: a sweep could then not be planned as a whole.
    """

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keeps what `launch` needs."""
        self.hydra_context = hydra_context
        self.task_function = task_function
        self.config = config
        self.parse = cache(OverridesParser.create().parse_override)

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Calls the task function once, with a `RunConfig` per job; returns no results, since nothing has run yet."""
        self.task_function(list(self._runs(job_overrides)))
        return []

    def _runs(self, job_overrides: Sequence[Sequence[str]]) -> Iterator[RunConfig]:
        compose = cache(self._compose)
        # The configuration of the latest job of each choice of files, and its values. Each job of a sweep sets the same
        # names, so that the next one only needs those that differ: composing takes 60 ms, a copy 4 ms.
        latest: dict[tuple[str, ...], tuple[DictConfig, dict[str, str]]] = {}
        for overrides in job_overrides:
            choices = tuple(word for word in overrides if not _is_value(word))
            values = {word.partition("=")[0]: word for word in overrides if _is_value(word)}
            config, present = latest.get(choices) or (copy.deepcopy(compose(choices)), {})
            parsed = {name: self.parse(word) for name, word in values.items()}
            if any(isinstance(value.value(), dict) for value in parsed.values()):  # merged with what is there
                config, present = copy.deepcopy(compose(choices)), {}
            for name, value in parsed.items():
                if present.get(name) != values[name]:
                    _set(config, value)
            latest[choices] = config, values
            yield typed(config)

    def _compose(self, overrides: tuple[str, ...]) -> DictConfig:
        config: DictConfig = self.hydra_context.config_loader.load_sweep_config(self.config, list(overrides))
        with open_dict(config):
            del config["hydra"]
        return config


def _set(config: DictConfig, override: Override) -> None:
    OmegaConf.update(config, override.key_or_group, override.value(), merge=True)


def _is_value(override: str) -> bool:
    """Whether `override` sets a value rather than choosing a file, which takes Hydra 60 ms to compose."""
    name = override.partition("=")[0]
    return name not in GROUPS and not name.startswith(("hydra", "+", "~")) and not set("/@") & set(name)


class SweepSweeper(BasicSweeper):
    """Hydra's sweeper without the trial composition of every job, since the launcher composes all of them first."""

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Does nothing: see the class."""


@dataclass
class LauncherConfig:
    """The configuration of `hydra/launcher=accelbench`."""

    _target_: str = f"{__name__}.{SweepLauncher.__name__}"


@dataclass
class SweeperConfig:
    """The configuration of `hydra/sweeper=accelbench`."""

    _target_: str = f"{__name__}.{SweepSweeper.__name__}"
    max_batch_size: int | None = None
    params: dict[str, str] | None = None


ConfigStore.instance().store(group="hydra/sweeper", name="accelbench", node=SweeperConfig)
ConfigStore.instance().store(group="hydra/launcher", name="accelbench", node=LauncherConfig)
