"""Runs Lightning's loop in a coroutine, so that the clock decides when its next batch runs.

A greenlet runs in the same thread as the clock: what torch keeps for each thread, such as whether gradients are
recorded, holds in both.
"""

from collections.abc import Callable
from contextlib import suppress

from greenlet import getcurrent, greenlet

from accelbench.errors import UserError


class Stopped(BaseException):
    """Ends Lightning's loop when everything was measured. It runs its teardown, and no hook of an epoch's end."""


class Baton:
    """Passes control between the clock and Lightning's loop.

    Args:
        run: runs the whole loop, which calls `wait_for_step` before each batch.
    """

    def __init__(self, run: Callable[[], None]) -> None:
        self._clock = getcurrent()
        self._loop = greenlet(run)
        self._step = self._loop.switch
        self._wait = self._clock.switch

    def wait_for_step(self) -> None:
        """To be called by the loop: returns when the clock wants the next batch."""
        self._wait(True)

    def step(self) -> None:
        """To be called by the clock: returns when the loop has run one batch, or before the first one.

        Raises:
            UserError: the loop ended by itself; what the loop raises is raised here too.
        """
        if self._step() is not True:
            raise UserError("Lightning's loop ended by itself: it had no batch, or the module set trainer.should_stop")

    def stop(self) -> None:
        """Ends the loop. What fails then, such as a hook of the user's for exceptions, fails after the measurement."""
        if not self._loop.dead:
            with suppress(Stopped, Exception):
                self._loop.throw(Stopped)
