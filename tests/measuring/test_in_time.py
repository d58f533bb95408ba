import threading

import pytest

from accelbench.measuring.in_time import NotInTimeError, in_time


def test_a_call_gives_its_result_or_its_error():
    assert in_time(lambda: 3, 60) == 3
    with pytest.raises(ZeroDivisionError):
        in_time(lambda: 1 / 0, 60)
    with pytest.raises(SystemExit):
        in_time(lambda: (_ for _ in ()).throw(SystemExit(3)), 60)


def test_a_call_that_is_late_is_left_behind():
    ended, begun = threading.Event(), threading.Event()

    def call():
        begun.set()
        ended.wait(60)

    with pytest.raises(NotInTimeError):
        in_time(call, 0.01)
    assert begun.wait(60)
    ended.set()


def test_a_call_for_which_no_time_is_left_does_not_begin():
    with pytest.raises(NotInTimeError):
        in_time(lambda: pytest.fail("it began"), -1.0)
