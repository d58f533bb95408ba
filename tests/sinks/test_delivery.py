from pathlib import Path

import pytest

from accelbench.sinks import delivery as module
from accelbench.sinks.delivery import Delivery, sync
from accelbench.sinks.location import one_line
from tests.sinks.samples import processes, record
from tests.sinks.stores import deliver


class Flaky:
    """A store that refuses the records of these numbers, each once."""

    def __init__(self, *refused):
        self.refused, self.num_asked, self.sent, self.related = [*refused], 0, [], []

    def deliver(self, record):
        self.num_asked += 1
        if self.num_asked in self.refused:
            raise RuntimeError(f"no room for number {self.num_asked}\nand more")
        self.sent.append(record)

    def relate(self, cells):
        self.related += cells


@pytest.mark.parametrize(("refused", "num_sent"), [((), 5), ((2,), 5), ((2, 3), 1)])
def test_after_a_failure_the_rest_is_sent_at_the_end_of_the_sweep(monkeypatch, refused, num_sent):
    store = Flaky(*refused)
    monkeypatch.setattr(module, "open_store", lambda root: store)
    made = [record(number=number) for number in range(5)]
    delivery = deliver(Path(), *made)
    delivery.finish(processes(*made))
    assert store.sent == made[:num_sent]
    assert bool(store.related) == (num_sent == 5)
    lost = "MLflow lacks runs (no room for number 3 and more): `accelbench sync` delivers them."
    assert delivery.loss() == ("" if num_sent == 5 else lost)


def test_a_store_that_does_not_open_is_asked_once(monkeypatch):
    asked = []

    def refuse(root):
        asked.append(root)
        raise ConnectionError("refused")

    monkeypatch.setattr(module, "open_store", refuse)
    with Delivery("mlflow", Path()) as delivery:
        delivery.add(record())
        delivery.finish()
    assert (delivery.problem, len(asked)) == ("refused", 1)


def test_sync_asks_once_for_the_runs_of_a_suite_with_many_sweeps(monkeypatch):
    asked = []
    store = Flaky()
    store.delivered = lambda suite: asked.append(suite) or set()
    monkeypatch.setattr(module, "open_store", lambda root: store)
    sync(Path(), [processes(record(number=number, sweep_id=f"sweep-{number}")) for number in range(5)])
    assert asked == [record().cell.suite]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\n\x1b[31mred\x07\u202e", r"\x1b[31mred\x07\u202e"),
        ("x" * 285 + "http://me:s3cret@host", "x" * 285 + "http://me:***@…"),  # masked before it is cut
    ],
)
def test_what_a_server_says_is_safe_to_print_and_shows_no_password(text, shown):
    assert one_line(RuntimeError(text)) == shown
