import time

import pytest

from accelbench.sinks import location
from accelbench.sinks.location import InTime


class Server:
    def answer(self, seconds, *, value):
        time.sleep(seconds)
        return value

    def fill(self):
        return [b"x" * (1 << 20) for _ in range(10_000)]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(location, "TICK_S", 0.01)


def test_a_call_returns_what_it_has_unless_it_takes_too_long(monkeypatch):
    monkeypatch.setattr(location, "CALL_S", 0.2)
    server = InTime(Server())
    assert server.answer(0.0, value=3) == 3
    with pytest.raises(TimeoutError, match="no whole answer within 0.2 s"):
        server.answer(60.0, value=3)
    assert server.answer(0.0, value=4) == 4


def test_an_answer_that_fills_the_memory_is_ended(monkeypatch):
    monkeypatch.setattr(location, "MAX_KB", 50_000)
    with pytest.raises(TimeoutError, match="fills the memory"):
        InTime(Server()).fill()
