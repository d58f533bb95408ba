"""How often torch.compile has compiled, whoever called it: the user's own code may."""

import sys
from typing import Any

from accelbench.measuring.runner import Compiles


class Compilations:
    """Counts the graphs that this process compiles from now on. It imports nothing of torch.compile."""

    def __init__(self) -> None:
        self._before = _so_far()

    def __call__(self) -> Compiles:
        """Their number, and the seconds that compiling took, including those of backward passes."""
        (num, seconds), (earlier, earlier_s) = _so_far(), self._before
        return max(0, num - earlier), max(0.0, seconds - earlier_s)  # the user's code may have cleared the counters


def _so_far() -> Compiles:
    utils: Any = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return 0, 0.0
    return utils.counters["stats"]["unique_graphs"], utils.calculate_time_spent()["total_wall_time"]
