"""From words to cells: the one place that asks Hydra."""

import argparse
import os
import shlex
import sys
import tempfile
from collections.abc import Callable
from typing import NoReturn

import hydra
from hydra._internal.utils import get_args_parser
from omegaconf import DictConfig

from accelbench import project
from accelbench.errors import UserError
from accelbench.schema.cell import Cell
from accelbench.settings import config, params, suites, to_cell
from accelbench.settings.to_cell import repeated


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are told as any other mistake of the user's."""

    def error(self, message: str) -> NoReturn:
        """Raises it as a `UserError`."""
        raise UserError(f"{message}; `accelbench --help` shows what there is")


def cells_of(configs: list[DictConfig]) -> tuple[list[Cell], config.SweepOptions]:
    """The cells of a sweep's configurations, repeats included, and what holds for all of it.

    Raises:
        UserError: a value is out of range, or one that holds for the sweep differs within it.
    """
    pairs = [to_cell.split(one) for one in configs]
    options = pairs[0][1]
    for _, other in pairs:
        if unlike := config.unlike(options, other):
            raise UserError(f"{unlike}: holds for a whole sweep: give it one value")
    return repeated([cell for cell, _ in pairs], options.repeats), options


def compose(words: list[str], task: Callable[[list[DictConfig]], None]) -> None:
    """Lets Hydra compose the configurations that `words` ask for and hands them to `task` in one call.

    Raises:
        UserError: a word is no setting, or a value is none of its choices.
    """
    root = project.project_root()
    config.register()
    # Errors come up to `main`, not out of Hydra's own hands.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    parsed = Parser(parents=[get_args_parser()], add_help=False).parse_intermixed_args(words)
    if parsed.multirun and parsed.cfg:
        raise UserError("--cfg shows the settings of one run: leave out -m, and plan")
    flags = [word for word in words if word not in parsed.overrides]
    settings = params.load(root)
    sys.argv[1:] = suites.with_suite([*flags, *parsed.overrides], settings)
    excluded = suites.exclusions(parsed.overrides, settings) if parsed.multirun else []
    raised: list[Exception] = []

    def guarded(composed: DictConfig | list[DictConfig]) -> None:
        try:
            configs = composed if isinstance(composed, list) else [composed]
            kept = [one for one in configs if not suites.is_excluded(one, excluded)]
            if not kept:
                raise UserError("params.yaml excludes every cell of this sweep: name the settings that you want")
            task(kept)
        except Exception as error:  # Hydra would print its own line about it first
            raised.append(error)

    with tempfile.TemporaryDirectory(prefix="accelbench-") as scratch:
        os.environ["ACCELBENCH_SCRATCH"] = scratch  # for the multirun.yaml that Hydra's sweeper writes
        hydra.main(version_base="1.3", config_path=str(root / "conf"), config_name="config")(guarded)()
    if raised:
        raise raised[0]


def one_cell(words: str) -> tuple[Cell, config.SweepOptions]:
    """The one cell that `words` are, and the options of its run.

    Raises:
        UserError: they are no words for one cell.
    """
    try:
        given = shlex.split(words)
    except ValueError as error:
        raise UserError(f"{words}: not readable as words ({error})") from error
    for word in given:
        if word.startswith("-") or word.partition("=")[0] in ("repeat", "repeats"):
            raise UserError(f"{word}: not for one cell; compare takes --repeats N outside of its sides")
    found: list[tuple[Cell, config.SweepOptions]] = []
    compose(given, lambda configs: found.append(to_cell.split(configs[0])))
    return found[0]
