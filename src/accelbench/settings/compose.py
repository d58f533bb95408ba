"""From words to configurations and cells; the only module that calls Hydra's command line."""

import copy
import os
import shlex
import sys
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, Node, OmegaConf
from omegaconf.resolvers import oc

from accelbench import project, scratch
from accelbench.errors import UserError
from accelbench.schema.cell import Cell
from accelbench.schema.secrets import is_secret
from accelbench.settings import config, params, suites, to_cell
from accelbench.settings.parser import Parser
from accelbench.settings.to_cell import repeated

MULTIRUN = "--multirun"
SCRATCH = "ACCELBENCH_SCRATCH"  # the environment variable that conf/config.yaml reads


def cells_of(configs: list[config.RunConfig]) -> tuple[list[Cell], config.SweepOptions]:
    """The cells of a sweep's configurations, repeats included, and the options of the whole sweep.

    Raises UserError: a value is out of range, an option of the whole sweep has several values, or there are too many
    cells.
    """
    pairs = [to_cell.cell_and_options(one) for one in configs]
    options = pairs[0][1]
    for _, other in pairs:
        if names := config.differing_options(options, other):
            raise UserError(f"{names}: holds for a whole sweep: give it one value")
    suites.check_cells(len(pairs) * options.repeats, f"repeats={options.repeats}")
    return repeated([cell for cell, _ in pairs], options.repeats), options


def compose(words: list[str]) -> list[config.RunConfig]:
    """The configurations that `words` ask for: one, or with -m one for each combination of values.

    Returns:
        They are empty if the words ask Hydra to print something instead, as `--cfg job` does.

    Raises:
        UserError: a word is no setting, a value is not one of its choices, or there are too many combinations.
    """
    place = project.workplace()
    ConfigStore.instance().store(name="schema", node=structure())
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises errors instead of printing them and exiting
    flags, words = _read(words)
    is_sweep = MULTIRUN in flags
    given, settings = suites.given_in(words), params.load(place.project)
    if place.project is None and given.get("suite", suites.NO_SUITE) != suites.NO_SUITE:
        raise UserError(
            f"suite={given['suite']}: suites are defined in a project's {project.PARAMS}, and there is none here or "
            "above: `accelbench init` makes one"
        )
    suite = suites.Suite.chosen(given, settings)
    words = suites.with_arguments_added([*words, *(suite.overrides(given, is_sweep) if suite else [])])
    suites.given_in(words)  # checks what the suite adds, too
    words = suites.without_missing_file(words, given, place.conf)
    sys.argv[1:] = [*flags, *words]
    if is_sweep:
        suites.check_combinations(map(suites.parse, words))
    suites.RULES.set(suite.rules(given) if suite and is_sweep else [])
    composed: list[list[config.RunConfig]] = []

    def keep(found: DictConfig | list[config.RunConfig]) -> None:  # our launcher hands over a whole sweep in one call
        composed.append(found if isinstance(found, list) else [typed(found)])

    OmegaConf.register_new_resolver("oc.env", _variable, replace=True)
    try:
        with scratch.folder() as folder:
            os.environ[SCRATCH] = str(folder)  # for the multirun.yaml that Hydra's sweeper writes
            hydra.main(version_base="1.3", config_path=str(place.conf), config_name="config")(keep)()
    finally:
        OmegaConf.register_new_resolver("oc.env", oc.env, replace=True)
    if composed == [[]]:
        raise UserError("params.yaml excludes every cell of this sweep: name the settings that you want")
    return composed[0] if composed else []


def structure() -> DictConfig:
    """The schema as Hydra takes it, the first of conf/config.yaml's defaults."""

    def unlock(section: DictConfig) -> None:  # OmegaConf makes sections of frozen dataclasses read-only
        OmegaConf.set_readonly(section, None)
        for name in section:
            if OmegaConf.is_dict(section._get_node(name)):
                unlock(section[name])

    whole: DictConfig = OmegaConf.structured(config.RunConfig)
    unlock(whole)
    return whole


def typed(composed: DictConfig) -> config.RunConfig:
    """The composed configuration as a `RunConfig` with plain values."""
    run = OmegaConf.to_object(composed)
    assert isinstance(run, config.RunConfig), "conf/config.yaml starts from the schema"
    return run


def updated(run: config.RunConfig, composed: DictConfig, names: Iterable[str]) -> config.RunConfig:
    """As `typed(composed)`, in a tenth of the time.

    `run` is what `composed` was before the settings `names`, such as `model.args.width`, were changed; all of them were
    set before.
    """
    referring = [each.name for each in fields(run) if OmegaConf.is_interpolation(composed, each.name)]
    for name in [*names, *referring]:
        value = OmegaConf.select(composed, name)
        run = _replaced(run, name.split("."), OmegaConf.to_object(value) if OmegaConf.is_config(value) else value)
    return run


def _replaced(whole: Any, path: list[str], value: Any) -> Any:
    """A copy of a group of settings, a dataclass or a mapping, with the value at `path`."""
    name, *rest = path
    found = copy.copy(whole)
    settings = found if isinstance(found, dict) else vars(found)
    settings[name] = _replaced(settings[name], rest, value) if rest else value
    return found


def _read(words: list[str]) -> tuple[list[str], list[str]]:
    parser = Parser(prog="accelbench run", add_help=False)
    parser.add_argument("-m", MULTIRUN, action="store_true")
    parser.add_argument("--cfg", choices=("job", "hydra", "all"))
    parser.add_argument("--resolve", action="store_true")
    parser.add_argument("overrides", nargs="*")
    parsed = parser.parse_intermixed_args(words)
    if parsed.multirun and parsed.cfg:
        raise UserError("--cfg shows the settings of one run: leave out -m, and plan")
    if parsed.resolve and not parsed.cfg:
        raise UserError("--resolve: goes with --cfg job")
    for word in parsed.overrides:
        if word.startswith("-"):  # after `--`
            raise UserError(f"{word}: should be name=value")
    given = {MULTIRUN: parsed.multirun, f"--cfg={parsed.cfg}": parsed.cfg, "--resolve": parsed.resolve}
    return [flag for flag, is_given in given.items() if is_given], list(map(suites.readable, parsed.overrides))


def _variable(name: str, *default: Any, _node_: Node) -> str | None:
    """The environment variable's value, for a setting that no record keeps; for any other one, a UserError."""
    setting = _node_._get_full_key(None)
    if name == SCRATCH or (setting in suites.PATHS and not is_secret(name)):
        return oc.env(name, *default)
    raise UserError(
        f"{setting}=${{oc.env:{name}}}: records and reports show the values of settings, and a variable may hold a "
        "secret: write the value, or, if it is a secret, let your code read the variable"
    )


def one_cell(words: str) -> tuple[Cell, config.SweepOptions]:
    """The one cell that `words`, separated as in a shell, describe, and the options of its run.

    Raises UserError: the words are not readable, describe several cells, or hold a flag, a number of repeats or an
    executor of a cluster.
    """
    try:
        given = shlex.split(words)
    except ValueError as error:
        raise UserError(f"{words}: not readable as words ({error})") from error
    for word in given:
        if word.startswith("-") or word.partition("=")[0] in ("repeat", "repeats"):
            raise UserError(f"{word}: not for one cell; compare takes --repeats N outside of the quotes")
    (composed,) = compose(given)
    config.check_local(composed.executor)
    return to_cell.cell_and_options(composed)
