"""accelbench's plugins for Hydra: a sweeper that knows suites, and a launcher that measures one cell after another.

Hydra imports this module whenever it starts. So each plugin imports what it needs only when it is used.
"""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from omegaconf import OmegaConf, open_dict


class LineSweeper(Sweeper):
    """Asks for each combination of listed values. The lines of a suite are combined one by one."""

    def setup(self, *, config: Any, **parts: Any) -> None:
        from hydra.core.plugins import Plugins

        self.launcher = Plugins.instance().instantiate_launcher(config=config, **parts)

    def sweep(self, arguments: list[str]) -> Any:
        from accelbench.settings.compose import asked

        return self.launcher.launch(asked(arguments), initial_job_idx=0)


class CellLauncher(Launcher):
    """Measures all jobs of a sweep in one run. A job returns its samples/s, or 0 if it has none."""

    def setup(self, *, config: Any, task_function: Any, **_: Any) -> None:
        self.config, self.measure = config, task_function

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        from accelbench.settings.compose import runs_of

        hydra = self.config.hydra
        folder = Path(hydra.sweep.dir)
        settings = copy.deepcopy(self.config)
        with open_dict(settings):
            del settings["hydra"]
        runs = list(runs_of(job_overrides))
        try:
            speeds = self.measure(runs, folder)
        finally:
            if folder.is_dir() and hydra.output_subdir is not None:
                _describe(folder / hydra.output_subdir, settings, hydra)
        jobs = []
        for words, speed in zip(job_overrides, speeds, strict=True):
            job = JobReturn(overrides=words, status=JobStatus.COMPLETED)
            job.return_value = speed
            jobs.append(job)
        return jobs


def _describe(folder: Path, settings: Any, hydra: Any) -> None:
    """Writes what Hydra writes beside every run."""
    folder.mkdir(exist_ok=True)
    OmegaConf.save(settings, folder / "config.yaml")
    OmegaConf.save({"hydra": hydra}, folder / "hydra.yaml")
    OmegaConf.save(hydra.overrides.task, folder / "overrides.yaml")


for group, kind in {"launcher": CellLauncher, "sweeper": LineSweeper}.items():
    node = {"_target_": f"{__name__}.{kind.__name__}"}
    ConfigStore.instance().store(group=f"hydra/{group}", name="accelbench", node=node, provider="accelbench")
