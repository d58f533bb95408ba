"""Stores that fail, and how the speeds of records compare."""

import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest

from accelbench.schema.vocab import Precision
from accelbench.sinks import delivery as module
from accelbench.sinks.delivery import Delivery
from accelbench.sinks.location import one_line
from tests.sinks.samples import cell, processes, record


class Flaky:
    """A store that refuses what `refuses` says."""

    def __init__(self, refuses=lambda number: False):
        self.refuses = refuses
        self.num_asked, self.sent = 0, []

    def deliver(self, record):
        self.num_asked += 1
        if self.refuses(self.num_asked):
            raise RuntimeError(f"no room for number {self.num_asked}\nand more")
        self.sent.append(record)

    def relate(self, cells, report):
        raise RuntimeError("no room for comparisons")


@pytest.fixture
def delivered(monkeypatch):
    def delivered(num, **options):
        store = Flaky(**options)
        monkeypatch.setattr(module, "open_store", lambda root: store)
        delivery = Delivery("mlflow", Path())
        for number in range(num):
            delivery.add(record(number=number))
        delivery.finish()
        return delivery, store

    return delivered


def test_one_refusal_costs_one_record(delivered):
    delivery, store = delivered(5, refuses=lambda number: number in (2, 3))
    assert len(store.sent) == 3
    delivery.relate(processes(record(), record(cell(precision=Precision.bf16), number=1)))
    assert delivery.loss() == "MLflow lacks runs (no room for number 2 and more): `accelbench sync` delivers them."


def test_what_does_not_open_or_fails_slowly_is_asked_for_nothing_more(delivered, monkeypatch):
    ticks = itertools.count(step=module.PATIENCE_S / 1.5)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    delivery, store = delivered(10, refuses=lambda number: True)
    assert store.num_asked == 2

    def refuse(root):
        raise ConnectionError("refused")

    monkeypatch.setattr(module, "open_store", refuse)
    delivery = Delivery("mlflow", Path())
    delivery.add(record())
    delivery.finish()
    assert delivery.problem == "refused"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("API request to https://me:s3cret@host:80/api failed", "API request to https://me:***@host:80/api failed"),
        ("'postgresql+psycopg2://me:p@ss/w:rd@host/db'", "'postgresql+psycopg2://me:***@host/db'"),
        ("http://me@host:80, sqlite:////a/b.db, http://host:80: ask a@b", None),
        ("\n\x1b[31mred\x07\u202e", r"\x1b[31mred\x07\u202e"),
        ("x" * 285 + "http://me:s3cret@host", "x" * 285 + "http://me:***@…"),  # masked before it is cut
    ],
)
def test_what_a_server_says_is_safe_to_print_and_shows_no_password(text, shown):
    assert one_line(RuntimeError(text)) == (shown or text)
