"""Evaluates the conditions in `combinations.py`.

A condition consists of terms, separated by blanks. It is true if all its terms are true. Examples of terms:
`engine=keras,pytorch` (one of these values), `device!=cpu`, `devices>1`, `threads` (true if the setting was given), and
`!fused` (true if the fact `fused` is false; with a setting: true if it was not given).
"""

import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

TERM = re.compile(r"(!?)([\w.]+)(?:(!=|[<>]=?|=)(\S+))?")
COMPARED = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


@dataclass(frozen=True)
class Rule:
    """A combination that is refused. In its texts `{name}` stands for the value of a setting or of a fact."""

    when: str  # the condition
    refuse: str  # what is refused, and why
    instead: str = ""  # what can be used instead


@dataclass(frozen=True)
class Needs:
    """Settings that have an effect only together with others."""

    settings: str  # names of settings or of sections, separated by blanks
    needed: str  # condition under which these settings have an effect
    among: str = ""  # condition under which this rule applies


@cache
def terms(condition: str) -> list[tuple[str, str, str]]:
    """Splits a condition into terms. A term is (name, sign, values). If it has no values, the sign is "" or "!"."""
    parts = []
    for no, name, sign, values in TERM.findall(condition):
        parts.append((name, sign or no, values))
    return parts


def text_of(value: object) -> str:
    """A value as the user writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


class Asked:
    """Looks up the settings of a request by the names that a user writes. Subclasses add facts as attributes."""

    places: ClassVar[Mapping[str, str]] = {}  # name -> its path in `whole`, if the path differs from the name

    def __init__(self, whole: Any) -> None:
        self.whole = whole

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name) if hasattr(type(self), name) else self._place(name)[1]

    def _place(self, name: str) -> tuple[Any, Any]:
        """Returns the section of a setting, and the setting's value. The value is None if there is no such section."""
        section = None
        value = self.whole
        for part in self.places.get(name, name).split("."):
            section, value = value, getattr(value, part, None)
        return section, value

    def is_given(self, name: str) -> bool:
        """Returns whether a setting or section differs from its default. For a fact, returns whether it is true."""
        if hasattr(type(self), name):
            return bool(getattr(self, name))
        section, value = self._place(name)
        default = getattr(type(section), name.rpartition(".")[2], None)
        value = tuple(value) if isinstance(value, list) else value  # OmegaConf's
        return value not in (default, None, "", {}, ())

    def holds(self, condition: str) -> bool:
        """Whether all terms of a condition hold."""
        return all(self._holds(*term) for term in terms(condition))

    def _holds(self, name: str, sign: str, values: str) -> bool:
        if sign in ("", "!"):
            return self.is_given(name) == (sign == "")
        value = self[name]
        if sign in COMPARED:
            limit = float(values) if values[0].isdecimal() else self[values]
            return value is not None and bool(COMPARED[sign](value, limit))
        words = value if isinstance(value, list) else [text_of(value)]
        return set(words).isdisjoint(values.split(",")) == (sign == "!=")

    def refusals(self, rules: Iterable[Rule]) -> Iterator[str]:
        """Yields a sentence for each rule that refuses these settings."""
        for rule in rules:
            if self.holds(rule.when):
                text = f"{rule.refuse}: use {rule.instead}" if rule.instead else rule.refuse
                yield re.sub(r"\{([\w.]+)\}", lambda match: text_of(self[match[1]]), text)

    def unread(self, rules: Iterable[Needs]) -> Iterator[tuple[str, str]]:
        """Yields each setting or section that has no effect, and a term that must be true for it to have an effect."""
        for rule in rules:
            lacking = [term for term in rule.needed.split() if not self.holds(term)]
            if lacking and self.holds(rule.among):
                yield from ((name, lacking[0]) for name in rule.settings.split())

    def useless(self, rules: Iterable[Needs], typed: Mapping[str, str]) -> dict[str, str]:
        """Returns a sentence for each typed setting that has no effect. `typed` maps its name to the typed word."""
        sentences: dict[str, str] = {}
        for setting, term in self.unread(rules):
            for name, word in typed.items():
                if f"{name}.".startswith(f"{setting}."):
                    sentences.setdefault(name, f"{word}: has no effect {self._why_useless(term)}")
        return sentences

    def _why_useless(self, term: str) -> str:
        """Returns the end of a sentence about a setting that has no effect, because `term` is false."""
        ((name, sign, values),) = terms(term)
        if sign == "!":
            return f"with {name}"
        if not sign or sign in COMPARED:
            return f"without {term}"
        words = " or ".join(f"{name}={word}" for word in values.split(","))
        return f"with {words}" if sign == "!=" else f"with {name}={self[name]}: use {words}"
