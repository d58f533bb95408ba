"""Several processes that compute one cell: the first one's clock leads, the others follow."""


class Team:
    """The processes that compute a cell: here there is but this one. An engine that has more extends it.

    The clock runs in the first process alone, and decides there how many steps are taken.
    """

    def begin(self, num_steps: int) -> None:
        """Has the other processes take so many steps, each with its share of every batch, as this one then does."""

    def end(self) -> None:
        """Returns when they have: what is timed is over when the slowest is done."""


ALONE = Team()
