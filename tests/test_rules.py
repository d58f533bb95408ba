"""The table: what its conditions and texts name is there."""

import re

import pytest

from accelbench.grid.support import CellFacts
from accelbench.rules import MISTAKES, NEEDS, SKIPPED, Asked, Rule, terms
from accelbench.schema.cell import Device, Engine, KerasSettings
from accelbench.settings.to_cell import RunFacts
from fakes import make_cell
from grid.test_support import report
from settings.composed import merged


def test_a_rule_names_settings_and_facts_that_there_are():
    def is_setting(asked, name):
        section, _ = asked._place(name)
        return hasattr(section, asked.places.get(name, name).rpartition(".")[2])

    run = RunFacts(merged())
    cell = CellFacts(make_cell(engine=Engine.keras, keras=KerasSettings(), device=Device.gpu), report(Device.gpu))
    for asked, rule in [*((run, rule) for rule in MISTAKES), *((cell, rule) for rule in SKIPPED)]:
        found = list(terms(rule.when))
        assert sum(len("".join(map(str, term))) for term in found) == len(rule.when.replace(" ", ""))
        for name in [*(name for name, _, _ in found), *re.findall(r"\{([\w.]+)\}", f"{rule.refuse} {rule.instead}")]:
            assert hasattr(type(asked), name) or is_setting(asked, name), name
    assert all(is_setting(run, name) for rule in NEEDS for name in rule.settings.split())


class Trip(Asked):
    """Facts of a trip."""

    is_far = True

    def __init__(self, days=1):
        super().__init__(type("Settings", (), {"means": "walk", "days": days, "stop": None})())


HOLD = ["means=walk,ride", "!stop", "is_far", "days>0", "days<2 is_far", ""]
FAIL = ["means!=walk", "means", "days>=2", "days<2 stop", "stop>1", "days<days"]


@pytest.mark.parametrize("condition", HOLD + FAIL)
def test_a_condition_holds_if_all_of_its_terms_do_and_a_refusal_has_the_values_and_what_to_use_instead(condition):
    assert Trip().holds(condition) == (condition in HOLD)
    rules = [Rule("days>5", "days={days}: {means} is slow", "means=ride"), Rule("stop", "never")]
    assert list(Trip(days=7.0).refusals(rules)) == ["days=7: walk is slow: use means=ride"]
