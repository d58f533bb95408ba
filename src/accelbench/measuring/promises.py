"""What a number promises, and what was observed of it; docs/measuring.md has the table.

A check sees all of the work, or a part that nothing in the process can know before. Where it can't look, it says that
nothing was observed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from accelbench.measuring.output_check import Findings, Outputs
from accelbench.measuring.products import Products
from accelbench.measuring.replay import Replay
from accelbench.measuring.training import Training
from accelbench.schema.measurement import Check
from accelbench.schema.vocab import Promise

MAX_NAMED = 3  # layers in a sentence


@dataclass
class Observations:
    """What an engine observed of a cell beside its times. What it could not look at stays as it is here.

    Attributes:
        products: the matrix products of one step.
        training: the weights.
        replayed: steps on inputs that were never fed, beside others.
        modes: layers that were in training mode in inference: those that drop at random, perhaps on purpose, and
            others.
    """

    products: Products = field(default_factory=Products)
    training: Training = field(default_factory=Training)
    replayed: Replay | None = None
    modes: tuple[Sequence[str], Sequence[str]] = ((), ())

    def defects(self) -> Iterator[str]:
        """What makes the numbers wrong."""
        yield from self.training.defects()
        if self.replayed is not None and (kept := self.replayed.defect()) is not None:
            yield kept

    def warnings(self, asked: str) -> Iterator[str]:
        """What a reader should know; `asked` is the format to compute in."""
        yield from self.training.warnings()
        yield from self.products.warnings(asked)
        if others := self.modes[1]:
            yield f"in training mode, although it infers: {', '.join(others[:MAX_NAMED])}"

    def notes(self, asked: str) -> Iterator[str]:
        """What a reader may want to know; `asked` is the format to compute in."""
        yield from self.products.notes(asked)
        if of_dropout := self.modes[0]:
            yield f"layers that drop at random did so in inference: {', '.join(of_dropout[:MAX_NAMED])}"

    def checks(self, outputs: Outputs | None, num_rows: int, found: Findings, *, trains: bool) -> Iterator[Check]:
        """What was observed of each promise that the cell's process can look at; the host looks at the others.

        Args:
            outputs: that were compared; None without.
            num_rows: rows of them.
            found: what they showed.
            trains: whether the cell trains.
        """
        yield Check(promise=Promise.settings, observed="the library's settings and threads were read back", share=1.0)
        seen = self.products.observed() if self.products.flops else ""
        yield Check(
            promise=Promise.precision, observed=seen, share=1.0 if seen and not self.products.uncounted else None
        )
        if trains:
            seen = self.training.observed() if self.training.start and self.training.end else ""
            yield Check(promise=Promise.training, observed=seen, share=1.0 if seen else None)
        elif outputs is not None and found.compared is not None:
            seen = f"{num_rows} random rows of {outputs.size}, of {found.compared} of {len(outputs.fed)} tensors"
            yield Check(promise=Promise.outputs, observed=seen, share=num_rows / outputs.size)
        else:
            yield Check(promise=Promise.outputs)
        if self.replayed is not None:
            yield Check(promise=Promise.outputs, observed=self.replayed.observed(), share=1.0)
