"""Lightning's loop in a coroutine, so that the clock decides when its next batch runs, and one batch as a step.

A greenlet runs in the same thread as the clock: what torch keeps for each thread, such as whether gradients are
recorded, holds in both.
"""

from collections.abc import Callable
from contextlib import suppress

from greenlet import getcurrent, greenlet

from accelbench.engines.lightning.own.lightning_module.loader import SwitchingLoader, unmarked
from accelbench.errors import UserError
from accelbench.schema.vocab import Phase


class Stopped(BaseException):
    """Ends Lightning's loop when everything was measured. It runs its teardown, and no hook of an epoch's end."""


class TrainerCoroutine:
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


class LoopStep:
    """One batch of Lightning's loop, as the clock sees it: everything happens inside `compute`."""

    def __init__(self, coroutine: TrainerCoroutine, loader: SwitchingLoader) -> None:
        self.run_batch, self.loader = coroutine.step, loader
        self.sizes = loader.sizes.sizes
        self.num_steps = 0
        self.mark: Callable[[Phase], None] = unmarked

    def fetch(self) -> None:
        """Nothing: the loop fetches its batch."""

    def copy_in(self, batch: None) -> None:
        """Nothing: the loop copies its batch."""

    def compute(self, batch: None) -> None:
        """Runs the next batch. A step of the loop that finds the loader's end instead is a part of the step after it.

        Raises:
            UserError: the loader ended again before it gave a batch.
        """
        num_ends = self.loader.num_early_ends
        self.run_batch()
        if self.loader.num_early_ends > num_ends:
            self.run_batch()
            if self.loader.num_early_ends > num_ends + 1:
                raise UserError(f"{self.loader.sizes.flag}: its loader gave no batch in a whole epoch")
        self.num_steps += 1

    def copy_out(self, result: None) -> None:
        """Nothing: the loop leaves its results on the device."""

    def num_samples(self, batch: None) -> int:
        """Samples in the batch that runs next."""
        return self.sizes[min(self.num_steps, len(self.sizes) - 1)]

    def samples_of_last(self, num_steps: int) -> int:
        """Samples in the batches of the last steps together."""
        return sum(self.sizes[self.num_steps - num_steps : self.num_steps])
