"""The configurations of all jobs of a sweep, composed in a fraction of the time that Hydra takes for each."""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

import hydra
from omegaconf import DictConfig, OmegaConf

from accelbench.settings.config import GROUPS, RunConfig
from accelbench.settings.suites import Rule, is_excluded, parse


def typed(composed: DictConfig) -> RunConfig:
    """The composed configuration as a `RunConfig` with plain values."""
    run = OmegaConf.to_object(composed)
    assert isinstance(run, RunConfig), "conf/config.yaml starts from the schema"
    return run


def updated(run: RunConfig, composed: DictConfig, names: Iterable[str]) -> RunConfig:
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


def compose_all(jobs: Iterable[Sequence[str]], rules: Sequence[Rule]) -> Iterator[RunConfig]:
    """Yields the configuration of each job, given as words, that no exclude rule matches. Hydra is initialised."""
    composer, parsed = _Composer(), cache(parse)
    # Each job of a sweep sets the same names, so that of each choice of files, the next job only needs the values that
    # differ: a new configuration takes 4 ms, and another 2 ms to be typed.
    latest: dict[tuple[str, ...], tuple[DictConfig, Mapping[str, str], RunConfig]] = {}
    for words in jobs:
        choices = tuple(word for word in words if not _is_value(word))
        values = {word.partition("=")[0]: word for word in words if _is_value(word)}
        overrides = {name: parsed(word) for name, word in values.items()}
        merges = any(isinstance(each.value(), dict) for each in overrides.values())  # with what is there
        is_new = merges or choices not in latest
        config, present, run = (composer.compose(choices), {}, None) if is_new else latest[choices]
        changed = [overrides[name] for name, word in values.items() if present.get(name) != word]
        for each in changed:
            OmegaConf.update(config, each.key_or_group, each.value(), merge=True)
        run = updated(run, config, [each.key_or_group for each in changed]) if run else typed(config)
        latest[choices] = config, values, run
        if not is_excluded(config, rules):
            yield run


class _Composer:
    """Composes every combination of files from a composition of each file, since Hydra takes 60 ms for each."""

    def __init__(self) -> None:
        self._first: tuple[str, ...] = ()
        self._of_word: dict[str, DictConfig | None] = {}  # the section that a word chooses; None: it changes more

    def compose(self, choices: tuple[str, ...]) -> DictConfig:
        """A new configuration of the files that `choices` name; all calls name the same groups in the same order."""
        if not self._first:
            self._first, self._base = choices, hydra.compose("config", list(choices))
        config: DictConfig = copy.deepcopy(self._base)
        for number, (word, first) in enumerate(zip(choices, self._first, strict=True)):
            if word != first:
                if word not in self._of_word:
                    self._of_word[word] = self._section(word, number)
                if (section := self._of_word[word]) is None:
                    config = hydra.compose("config", list(choices))
                    break
                config[word.partition("=")[0]] = section
        return config

    def _section(self, word: str, number: int) -> DictConfig | None:
        """What the file that `word` names sets; None if it sets more than its section, as model=timm sets the data."""
        group = word.partition("=")[0]
        config = hydra.compose("config", [*self._first[:number], word, *self._first[number + 1 :]])
        if group not in GROUPS or _without(config, group) != _without(self._base, group):
            return None
        section: DictConfig = config[group]
        return section


def _without(config: DictConfig, group: str) -> dict[Any, Any]:
    """The rest of the configuration, its interpolations as written."""
    settings = OmegaConf.to_container(config)
    assert isinstance(settings, dict), "a configuration maps names to settings"
    return {name: setting for name, setting in settings.items() if name != group}


def _is_value(word: str) -> bool:
    """Whether `word` sets a value rather than choosing a file, which takes Hydra 60 ms to compose."""
    name = word.partition("=")[0]
    return name not in GROUPS and not name.startswith(("+", "~")) and not set("/@") & set(name)
