"""params.yaml with 10,000 mutations: refused with a clear message, or read as settings, axes and possible costs."""

import json

import pytest
from hypothesis import strategies as st
from omegaconf import DictConfig

from accelbench.judging.costs import with_costs
from accelbench.judging.row import summarise
from accelbench.project import PARAMS
from accelbench.settings import params, suites
from faults.mutations import byte_changes, change_bytes, change_nodes, node_changes, raw, to_text
from faults.test_records import RECORDS, numbers_of
from faults.watch import Reader

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]

TEXT = """\
profile: quick  # a comment
costs: {gpu: {price_per_hour: 2.5, power_w: 350}, cpu: {power_w: 65}}
retry: none
data:
  mnist: {source: auto, image_size: 224}
suites:
  mine: &mine
    data: mnist
    batch_size: {quick: [1, 32], full: 64}
    exclude: {quick: [], full: [{batch_size: [64], data: mnist}]}
  other: *mine
"""
WHOLE = {
    "profile": "quick",
    "costs": {"gpu": {"price_per_hour": 2.5, "power_w": 350}},
    "data": {"mnist": {"source": "auto"}},
    "suites": {"mine": {"data": "mnist", "batch_size": {"quick": [1, 32], "full": 64}, "exclude": []}},
}
# What YAML reads as something else than JSON.
YAML = [
    *(".nan", ".inf", "0x7fffffffffffffff", "1_000", "1:30:00", "2026-11-20", "2026-11-20T09:00:00Z", "yes", "~", "<<"),
    *("!!python/object/apply:os.system [touch outside]", "!!python/name:hostile.Network", "!!binary aGk=", "!!set {a}"),
    *("!mine x", "${costs}", "${oc.env:HOME}", "${suites.mine}", "${", "???", "*none", "&a [*a]", "&a {a: *a}", "- -"),
    *("{? [a]: b}", "{1: 2}", "{null: 1}", "{true: 1}", "%TAG", "'", "|\n x", "? x"),
    "[&a [x, x], &b [*a, *a, *a, *a], &c [*b, *b, *b, *b], &d [*c, *c, *c, *c], [*d, *d, *d, *d]]",
]
in_yaml = st.tuples(node_changes, st.integers(0, 10), st.sampled_from(YAML))


def mutated(change) -> bytes:
    if change and isinstance(change[-1], str):
        nodes, place, text = change
        document = change_nodes(json.loads(json.dumps(WHOLE)), nodes[:1])
        values = [part for part in document.values() if isinstance(part, dict)] if isinstance(document, dict) else []
        if values:
            part = values[place % len(values)]
            part[list(part)[place % len(part)] if part and place % 3 else f"key{place}"] = raw(text)
        return to_text(document).encode()
    if change and hasattr(change[0], "path"):
        return to_text(change_nodes(json.loads(json.dumps(WHOLE)), change)).encode()
    return change_bytes(TEXT.encode(), change)


def test_params(tmp_path):
    path = tmp_path / PARAMS
    row = summarise(RECORDS[0])

    def read_costs() -> None:
        for device in (costs := params.costs(tmp_path)):
            numbers_of(with_costs({**row, "device": device.value}, costs))

    def read_data() -> None:
        for name in map(str, params.load(tmp_path).get("data") or {}):
            assert isinstance(params.data_settings(tmp_path, name), dict)

    def read_suites() -> None:
        settings = params.load(tmp_path)
        known = settings.get("suites")
        for suite in known if isinstance(known, DictConfig) else ():
            given = {"suite": str(suite)}
            if (chosen := suites.Suite.chosen(given, settings)) is not None:
                chosen.overrides(given, is_sweep=True)
                chosen.rules(given)

    readers = [read_costs, read_data, read_suites]
    for text in (TEXT, json.dumps(WHOLE)):
        path.write_text(text)
        for read in readers:
            read()

    def of(given):
        change, read = given
        path.write_bytes(mutated(change))
        return read

    changes = st.one_of(node_changes, node_changes, byte_changes, in_yaml)
    Reader("params.yaml", tmp_path).try_all(st.tuples(changes, st.sampled_from(readers)), of)
