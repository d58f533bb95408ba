"""From words to configurations and cells; the only module that calls Hydra's command line."""

import os
import shlex
import sys

import hydra
from hydra._internal.utils import get_args_parser
from omegaconf import DictConfig

from accelbench import project, scratch
from accelbench.errors import UserError
from accelbench.schema.cell import Cell
from accelbench.settings import config, params, suites, to_cell
from accelbench.settings.parser import Parser
from accelbench.settings.to_cell import repeated


def cells_of(configs: list[DictConfig]) -> tuple[list[Cell], config.SweepOptions]:
    """The cells of a sweep's configurations, repeats included, and the options of the whole sweep.

    Raises:
        UserError: a value is out of range, or an option of the whole sweep has several values.
    """
    pairs = [to_cell.cell_and_options(one) for one in configs]
    options = pairs[0][1]
    for _, other in pairs:
        if names := config.differing_options(options, other):
            raise UserError(f"{names}: holds for a whole sweep: give it one value")
    return repeated([cell for cell, _ in pairs], options.repeats), options


def compose(words: list[str]) -> list[DictConfig]:
    """The configurations that `words` ask for: one, or with -m one for each combination of values.

    Returns:
        They are empty if the words ask Hydra to print something instead, as `--cfg job` does.

    Raises:
        UserError: a word is no setting, or a value is not one of its choices.
    """
    root = project.project_root()
    config.register()
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises errors instead of printing them and exiting
    parsed = Parser(prog="accelbench run", parents=[get_args_parser()], add_help=False).parse_intermixed_args(words)
    if parsed.multirun and parsed.cfg:
        raise UserError("--cfg shows the settings of one run: leave out -m, and plan")
    flags = [word for word in words if word not in parsed.overrides]
    settings = params.load(root)
    sys.argv[1:] = suites.add_suite_axes([*flags, *parsed.overrides], settings)
    rules = suites.exclude_rules_in_force(parsed.overrides, settings) if parsed.multirun else []
    composed: list[DictConfig] = []

    def keep(configs: DictConfig | list[DictConfig]) -> None:  # our launcher hands over all of a sweep's in one call
        composed.extend(configs if isinstance(configs, list) else [configs])

    with scratch.folder() as folder:
        os.environ["ACCELBENCH_SCRATCH"] = str(folder)  # for the multirun.yaml that Hydra's sweeper writes
        hydra.main(version_base="1.3", config_path=str(root / "conf"), config_name="config")(keep)()
    kept = [one for one in composed if not suites.is_excluded(one, rules)]
    if composed and not kept:
        raise UserError("params.yaml excludes every cell of this sweep: name the settings that you want")
    return kept


def one_cell(words: str) -> tuple[Cell, config.SweepOptions]:
    """The one cell that `words`, separated as in a shell, describe, and the options of its run.

    Raises:
        UserError: the words are not readable, describe several cells, or hold a flag or a number of repeats.
    """
    try:
        given = shlex.split(words)
    except ValueError as error:
        raise UserError(f"{words}: not readable as words ({error})") from error
    for word in given:
        if word.startswith("-") or word.partition("=")[0] in ("repeat", "repeats"):
            raise UserError(f"{word}: not for one cell; compare takes --repeats N outside of the quotes")
    (composed,) = compose(given)
    return to_cell.cell_and_options(composed)
