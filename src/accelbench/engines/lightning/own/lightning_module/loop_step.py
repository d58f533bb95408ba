"""One batch of Lightning's loop, as the clock sees it."""

from collections.abc import Callable

from accelbench.engines.lightning.own.lightning_module.baton import Baton
from accelbench.engines.lightning.own.lightning_module.loader import SwitchingLoader, unmarked
from accelbench.errors import UserError
from accelbench.schema.vocab import Phase


class LoopStep:
    """One batch of Lightning's loop, as the clock sees it: everything happens inside `compute`."""

    def __init__(self, baton: Baton, loader: SwitchingLoader) -> None:
        self.pass_baton, self.loader = baton.step, loader
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
        self.pass_baton()
        if self.loader.num_early_ends > num_ends:
            self.pass_baton()
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
