"""Our Hydra launcher: gets all of a multirun's overrides at once and runs them as one sweep.

Hydra looks for plugins in the namespace package `hydra_plugins`, and only there.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

from accelbench.settings.config import GROUPS


class SweepLauncher(Launcher):
    """Composes every job's configuration, then hands them all to the sweep in one call.

    Hydra's own launchers run job by job: the sweep would know neither its plan nor its end.
    """

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keeps what `launch` needs."""
        self.hydra_context = hydra_context
        self.task_function = task_function
        self.config = config
        self.parser = OverridesParser.create()

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Runs the whole sweep, and returns nothing: every outcome is a record."""
        compose = cache(self._compose)
        configs = []
        for overrides in job_overrides:
            chosen = tuple(word for word in overrides if not _is_value(word))
            config = copy.deepcopy(compose(chosen))
            for value in self.parser.parse_overrides([word for word in overrides if _is_value(word)]):
                OmegaConf.update(config, value.key_or_group, value.value(), merge=True)
            configs.append(config)
        self.task_function(configs)
        return []

    def _compose(self, overrides: tuple[str, ...]) -> DictConfig:
        config: DictConfig = self.hydra_context.config_loader.load_sweep_config(self.config, list(overrides))
        with open_dict(config):
            del config["hydra"]
        return config


def _is_value(override: str) -> bool:
    """Whether `override` sets a value: the others choose files, and each choice takes Hydra 60 ms to compose."""
    name = override.partition("=")[0]
    return name not in GROUPS and not name.startswith(("hydra", "+", "~")) and not set("/@") & set(name)


class SweepSweeper(BasicSweeper):
    """Hydra's own sweeper without its trial composition of every job.

    The launcher composes them all before the first one runs: a second time would only double the wait.
    """

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Nothing: see the class."""


@dataclass
class LauncherConfig:
    """What `hydra/launcher=accelbench` composes."""

    _target_: str = f"{__name__}.{SweepLauncher.__name__}"


@dataclass
class SweeperConfig:
    """What `hydra/sweeper=accelbench` composes."""

    _target_: str = f"{__name__}.{SweepSweeper.__name__}"
    max_batch_size: int | None = None
    params: dict[str, str] | None = None


ConfigStore.instance().store(group="hydra/sweeper", name="accelbench", node=SweeperConfig)
ConfigStore.instance().store(group="hydra/launcher", name="accelbench", node=LauncherConfig)
