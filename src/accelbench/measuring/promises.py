"""What a number promises, and what was observed of it; docs/measuring.md has the table.

A check sees all of the work, or a part that nothing in the process can know before. Where it can't look, it says that
nothing was observed.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar, cast

from accelbench.measuring.output_check import Findings, Outputs
from accelbench.measuring.replay import Replay
from accelbench.measuring.training import MAX_NAMED, Training
from accelbench.schema.measurement import Check
from accelbench.schema.vocab import Promise

# NumPy's names of formats -> significant bits.
BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8, "int8": 7, "uint8": 8}
MIN_SHARE = 0.01  # of the operations: below it, a format is not worth a word


@dataclass
class Products:
    """The matrix products of a step, as they ran."""

    # format, by NumPy's name -> floating-point operations whose first factor is in it
    flops: dict[str, int] = field(default_factory=dict)
    uncounted: set[str] = field(default_factory=set)  # operators that may be products of an unknown size
    of: str = "matrix products"  # whose operations they are: an engine may know less than those of all products

    @property
    def total(self) -> int:
        """Floating-point operations in all formats."""
        return sum(self.flops.values())

    @property
    def most(self) -> str | None:
        """The format of most operations; None without products."""
        return next(iter(self.shares()), None)

    def shares(self) -> dict[str, float]:
        """The share of the operations in each format, the largest first."""
        formats = sorted(self.flops, key=self.flops.__getitem__, reverse=True)
        return {name: self.flops[name] / self.total for name in formats if self.flops[name]}

    def others(self, asked: str, *, coarser: bool) -> Iterator[str]:
        """Sentences about operations in a coarser format than was asked for, or in a finer one, perhaps on purpose."""
        for name, share in self.shares().items():
            is_coarser = BITS.get(name, 0) < BITS[asked]
            if name != asked and share >= MIN_SHARE and is_coarser == coarser:
                yield f"{100 * share:.0f} % of the operations of {self.of} ran in {name}, not in {asked}"

    def observed(self) -> str:
        """What was observed, in words."""
        formats = ", ".join(f"{100 * share:.3g} % in {name}" for name, share in self.shares().items())
        return f"{self.of} of one step: {formats}" if formats else "one step, which has no matrix products"


@dataclass
class Observations:
    """What an engine observed of a cell beside its times. What it could not look at stays as it is here."""

    products: Products = field(default_factory=Products)  # the matrix products of one step
    training: Training = field(default_factory=Training)  # the weights
    replayed: Replay = field(default_factory=Replay)  # steps on inputs that were never fed, beside others
    # layers that were in training mode in inference: those that drop at random, perhaps on purpose, and others
    modes: tuple[Sequence[str], Sequence[str]] = ((), ())
    checks_s: float = 0.0  # how long the checks took
    _is_checking: bool = False

    @contextmanager
    def checking(self) -> Iterator[None]:
        """Adds the time of a check to `checks_s`, unless it is a part of another check."""
        if self._is_checking:
            yield
            return
        start, self._is_checking = time.perf_counter(), True
        try:
            yield
        finally:
            self.checks_s += time.perf_counter() - start
            self._is_checking = False

    def defects(self) -> Iterator[str]:
        """What makes the numbers wrong."""
        yield from self.training.defects()
        yield from self.replayed.defects()

    def warnings(self, asked: str) -> Iterator[str]:
        """What a reader should know; `asked` is the format to compute in."""
        yield from self.training.warnings()
        yield from self.products.others(asked, coarser=True)
        yield from self.replayed.warnings()
        if others := self.modes[1]:
            yield f"in training mode, although it infers: {', '.join(others[:MAX_NAMED])}"

    def notes(self, asked: str) -> Iterator[str]:
        """What a reader may want to know; `asked` is the format to compute in."""
        yield from self.products.others(asked, coarser=False)
        yield from self.training.notes()
        if of_dropout := self.modes[0]:
            yield f"layers that drop at random did so in inference: {', '.join(of_dropout[:MAX_NAMED])}"

    def checks(self, outputs: Outputs | None, num_rows: int, found: Findings, *, trains: bool) -> Iterator[Check]:
        """What was observed of each promise that the cell's process can look at; the host looks at the others."""
        if self.products.flops:
            share = None if self.products.uncounted else 1.0
            yield Check(promise=Promise.precision, observed=self.products.observed(), share=share)
        else:
            yield Check(promise=Promise.precision)
        if trains and self.training.is_observed:
            yield Check(promise=Promise.training, observed=self.training.observed(), share=1.0)
        elif not trains and outputs is not None and found.compared is not None:
            seen = f"{num_rows} random rows of {outputs.size}, of {found.compared} of {len(outputs.fed)} tensors"
            yield Check(promise=Promise.outputs, observed=seen, share=num_rows / outputs.size)
        else:
            yield Check(promise=Promise.training if trains else Promise.outputs)
        if num := self.replayed.num_unseen:
            share = num / (num + self.training.num_steps)
            yield Check(promise=Promise.outputs, observed=self.replayed.observed(), share=share)


Method = TypeVar("Method", bound=Callable[..., Any])


def check_timed(method: Method) -> Method:
    """Counts the time of a method that checks something, of a run whose observations are its attribute `seen`."""

    @wraps(method)
    def timed(run: Any, *args: Any, **kwargs: Any) -> Any:
        with run.seen.checking():
            return method(run, *args, **kwargs)

    return cast("Method", timed)
