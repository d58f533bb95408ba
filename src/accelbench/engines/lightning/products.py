"""The matrix products of a step, as they run: how many operations in which format."""

from collections import Counter as Counts
from collections.abc import Iterator
from contextlib import contextmanager

from accelbench.engines.lightning.work import Counter
from accelbench.measuring.products import Products


@contextmanager
def watched(into: Products) -> Iterator[None]:
    """Watches the operators of one or several steps on the CPU or a GPU, backward passes included."""
    counter = Counter()
    with counter:
        yield
    into.flops = dict(Counts(into.flops) + counter.flops_in)
    into.uncounted |= counter.uncounted
