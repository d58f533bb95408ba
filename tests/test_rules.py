"""The table: what its conditions and texts name is there."""

import re

import pytest

from accelbench.devices.registry import DeviceReport
from accelbench.grid.support import CellFacts
from accelbench.rules import MISTAKES, NEEDS, SKIPPED, Asked, Rule, terms
from accelbench.schema.cell import Device, Engine, KerasSettings
from accelbench.settings.to_cell import RunFacts
from fakes import make_cell
from settings.composed import merged

CELL = make_cell(engine=Engine.keras, keras=KerasSettings(), device=Device.gpu)
REPORT = DeviceReport(device=Device.gpu, name="NVIDIA X", count=1)
OF_RUN = [*((rule, RunFacts(merged())) for rule in MISTAKES)]
OF_CELL = [*((rule, CellFacts(CELL, REPORT)) for rule in SKIPPED)]


def is_setting(asked, name):
    section, _ = asked._place(name)
    return hasattr(section, asked.places.get(name, name).rpartition(".")[2])


@pytest.mark.parametrize(("rule", "asked"), [*OF_RUN, *OF_CELL], ids=lambda value: getattr(value, "when", ""))
def test_a_rule_names_settings_and_facts_that_there_are(rule, asked):
    assert sum(len(f"{name}{sign}{values}") for name, sign, values in terms(rule.when)) == len(
        rule.when.replace(" ", "")
    )
    names = [name for name, _, _ in terms(rule.when)]
    for name in [*names, *re.findall(r"\{([\w.]+)\}", f"{rule.refuse} {rule.instead}")]:
        assert hasattr(type(asked), name) or is_setting(asked, name), name


def test_what_needs_others_is_a_setting():
    asked = RunFacts(merged())
    for rule in NEEDS:
        assert all(is_setting(asked, name) for name in rule.settings.split())


class Trip(Asked):
    """Facts of a trip."""

    is_far = True

    def __init__(self, **settings):
        super().__init__(type("Settings", (), {"means": "walk", "days": 1, "stop": None})())
        vars(self.whole).update(settings)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        *(("means=walk,ride", True), ("means!=walk", False), ("means", False), ("!stop", True), ("is_far", True)),
        *(("days>0", True), ("days>=2", False), ("days<2 is_far", True), ("days<2 stop", False), ("stop>1", False)),
        *(("", True), ("days<days", False)),
    ],
)
def test_a_condition_holds_if_all_of_its_terms_do(condition, holds):
    assert Trip().holds(condition) == holds


def test_a_refusal_has_the_values_and_what_to_use_instead():
    rules = [Rule("days>5", "days={days}: {means} is slow", "means=ride"), Rule("stop", "never")]
    assert list(Trip(days=7.0).refusals(rules)) == ["days=7: walk is slow: use means=ride"]
