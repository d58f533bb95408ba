import time

import pytest

from accelbench.sinks import base
from accelbench.sinks.base import Sink
from tests.sinks.samples import record


class Flaky(Sink):
    """Refuses what `refuses` says, after `delay_s`."""

    name = "flaky"

    def __init__(self, *, opens=True, refuses=lambda number: False, delay_s=0.0):
        super().__init__()
        self.opens, self.refuses, self.delay_s = opens, refuses, delay_s
        self.num_asked, self.sent, self.is_closed = 0, [], False

    def _open(self):
        if not self.opens:
            raise ConnectionError("refused\nand more")

    def _send(self, record):
        self.num_asked += 1
        if self.refuses(self.num_asked):
            time.sleep(self.delay_s)
            raise RuntimeError(f"no room for number {self.num_asked}")
        self.sent.append(record)

    def _relate(self, found, means):
        raise RuntimeError("no room for comparisons")

    def _find(self, record):
        if record not in self.sent:
            raise LookupError("not here")
        return f"the page of {record.name}"

    def _close(self):
        self.is_closed = True
        raise OSError("already gone")


def test_what_was_delivered_can_be_found():
    with Flaky(refuses=lambda number: number == 2) as sink:
        sink.deliver(record())
        sink.deliver(record(number=1))
        assert sink.link(record()) == f"the page of {record().name}"
        assert sink.link(record(number=1)) is None


def test_a_sink_that_works_delivers_all():
    with Flaky() as sink:
        sink.deliver(record())
    assert (len(sink.sent), sink.undelivered, sink.is_closed) == (1, 0, True)


def test_one_refusal_costs_one_record():
    with Flaky(refuses=lambda number: number in (2, 3)) as sink:
        for _ in range(5):
            sink.deliver(record())
    assert (len(sink.sent), sink.undelivered) == (3, 2)
    assert sink.problem == "no room for number 2"


def test_what_does_not_open_is_asked_for_nothing():
    with Flaky(opens=False) as sink:
        sink.deliver(record())
    assert (sink.num_asked, sink.undelivered, sink.problem) == (0, 1, "refused")
    assert not sink.is_closed


def test_what_a_server_says_is_safe_to_print():
    assert base.one_line(RuntimeError("\n\x1b[31mred\x07\u202e")) == r"\x1b[31mred\x07\u202e"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("API request to https://me:s3cret@host:80/api failed", "API request to https://me:***@host:80/api failed"),
        ("'postgresql+psycopg2://me:p@ss/w:rd@host/db'", "'postgresql+psycopg2://me:***@host/db'"),
        ("http://:s3cret@host and http://me:s3cret@host", "http://:***@host and http://me:***@host"),
        ("http://me@host:80, sqlite:////a/b.db, http://host:80: ask a@b", None),
    ],
)
def test_what_a_server_says_shows_no_password(text, shown):
    assert base.one_line(RuntimeError(text)) == (shown or text)


def test_a_password_is_masked_before_a_long_message_is_cut():
    assert "s3" not in base.one_line(RuntimeError("x" * 290 + "http://me:s3cret@host"))


def test_slow_failures_exhaust_the_patience(monkeypatch):
    monkeypatch.setattr(base, "PATIENCE_S", 0.05)
    with Flaky(refuses=lambda number: True, delay_s=0.03) as sink:
        for _ in range(10):
            sink.deliver(record())
    assert (sink.num_asked, sink.undelivered) == (2, 10)


def test_an_interrupt_is_no_failure_of_the_sink():
    sink = Flaky()

    def interrupt(record):
        raise KeyboardInterrupt

    sink._send = interrupt
    with pytest.raises(KeyboardInterrupt), sink:
        sink.deliver(record())


def test_speeds_that_could_not_be_compared_are_noted_and_nothing_else_is():
    with Flaky() as sink:
        sink.deliver(record())
        sink.relate([])
        assert not sink.is_unrelated
        sink.relate([object()])
    assert (sink.is_unrelated, sink.undelivered, sink.problem) == (True, 0, "no room for comparisons")
