"""The answers: for each model and what is done with it, the fastest setting, and how sure that is."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from accelbench.presentation import significant
from accelbench.report.command_words import command_words
from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables import best
from accelbench.report.tables.confidence import Confidence, Sureness
from accelbench.report.tables.first_screen import Recommendation
from accelbench.schema.record import Row
from accelbench.schema.vocab import Mode

MAX_CANDIDATES = 4
NEAR = 0.5  # a speed above this share of the fastest one is so many per cent slower; others take so many times as long
MODES = {Mode.train: "training", Mode.infer: "inference"}
IMAGE_DIMENSIONS = (2, 3)  # of an input's shape: height and width, after channels if there are several


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A setting that was measured, at its fastest batch size.

    Attributes:
        names: of its records.
        text: such as `bf16, batch 16`.
        label: the same in short, such as `cpu bf16 b16`.
        device: the device's word.
        verdict: `fastest`, or how much slower it is and how sure that is, such as `21 % slower, sure`.
        share: its speed as a share of the largest that is shown, whiskers included.
        low_share, high_share: the 95 % interval of its speed within its process, the same; None if unknown.
        rate: its speed with its unit.
    """

    names: list[str]
    text: str
    label: str
    device: str
    verdict: str
    share: float
    low_share: float | None
    high_share: float | None
    rate: str


@dataclass(frozen=True)
class Answer:
    """What to use for one model, and what is done with it.

    Attributes:
        found: its cells.
    """

    found: Recommendation

    @property
    def fastest(self) -> ReportedCell:
        """The fastest cell."""
        return self.found.fastest

    @property
    def what(self) -> str:
        """The model and the mode, such as `resnet18, inference`."""
        return f"{best.model_text(self.fastest)}, {MODES[self.fastest.cell.mode]}"

    @property
    def data(self) -> str:
        """The data and how they are fed, such as `random 3x224x224 host`."""
        return best.data_text(self.fastest)

    @property
    def is_stand_in(self) -> bool:
        """Whether a stand-in was measured instead of the data set."""
        return bool(self.fastest.row["stand_in"])

    @cached_property
    def others(self) -> list[ReportedCell]:
        """The fastest cell of each other setting, the fastest first; of other batch sizes if there is one setting."""
        return self.found.others or self.found.by_speed[1:]

    @cached_property
    def confidence(self) -> Confidence | None:
        """How sure it is that the fastest is faster than the next one; None if nothing else was measured."""
        return self.found.confidence(self.others[0]) if self.others else None

    @property
    def sentence(self) -> str:
        """What is the fastest, by how much, and how sure that is."""
        first, rate = self._text(self.fastest), self._rate(self.fastest)
        if self.confidence is None:
            return f"{first} gives {rate}{self._latency}. It is the only setting that was measured in full."
        other = self.others[0]
        behind = f"{self._text(other)} {'is' if self._is_near(other) else 'takes'} {self._behind(other)}"
        if self.confidence.sureness == Sureness.cant_tell:
            why = f": {self.confidence.detail}" if self.confidence.detail else ""
            return f"{first} measured fastest, {rate}{self._latency}; {behind}, but can't tell{why}."
        return f"{first} is fastest here, {rate}{self._latency}; {behind} ({self.confidence.sureness})."

    @property
    def candidates(self) -> list[Candidate]:
        """The fastest settings, for a picture of bars."""
        shown = [self.fastest, *self.others[: MAX_CANDIDATES - 1]]
        ends = [reported.number(f"samples_per_s{end}") or 0.0 for reported in shown for end in ("", "_high")]
        return [self._candidate(reported, max(ends)) for reported in shown]

    @property
    def num_more(self) -> int:
        """How many settings the picture leaves out."""
        return max(0, len(self.others) - MAX_CANDIDATES + 1)

    @property
    def command(self) -> str | None:
        """The command that decides between the two fastest; None if it is decided, or no command can repeat them."""
        if self.confidence is None or self.confidence.sureness == Sureness.sure:
            return None
        words = [command_words(reported.cell) for reported in (self.fastest, self.others[0])]
        if None in words:
            return None
        sides = " ".join(shlex.quote(" ".join(side)) for side in words if side)
        return f"accelbench compare --run {sides}"

    def _candidate(self, reported: ReportedCell, largest: float) -> Candidate:
        low, high = (reported.number(f"samples_per_s_{end}") for end in ("low", "high"))
        is_first = reported is self.fastest
        verdict = f"{self._behind(reported)}, {self.found.confidence(reported).sureness}"
        return Candidate(
            names=[each.name for each in self.found.cells if each.measured_key == reported.measured_key],
            text=self._text(reported),
            label=self.found.text(reported.row),
            device=reported.cell.device.value,
            verdict="fastest" if is_first else verdict,
            share=(reported.number("samples_per_s") or 0.0) / (largest or 1.0),
            low_share=None if low is None else low / (largest or 1.0),
            high_share=None if high is None else high / (largest or 1.0),
            rate=self._rate(reported),
        )

    @cached_property
    def _has_devices(self) -> bool:
        return len({reported.cell.device for reported in self.found.cells}) > 1

    def _text(self, reported: ReportedCell) -> str:
        """A setting and its batch, such as `bf16 on the gpu, batch 16`."""
        row: Row = reported.row
        on = f" on {row['device']}" if self._has_devices else ""
        options = self.found.options(row)
        return f"{row['precision']}{on}{f' with {options}' if options else ''}, batch {row['batch_size']}"

    def _rate(self, reported: ReportedCell) -> str:
        model = reported.cell.model
        is_image = model.batch is None and len(model.input_shape or ()) in IMAGE_DIMENSIONS
        return f"{significant(reported.number('samples_per_s'))} {'images' if is_image else 'samples'}/s"

    @property
    def _latency(self) -> str:
        p50_ms = self.fastest.number("latency_p50_ms")
        return "" if p50_ms is None else f", median step {significant(p50_ms)} ms"

    def _is_near(self, reported: ReportedCell) -> bool:
        return (reported.over(self.fastest, "samples_per_s") or 0.0) > NEAR

    def _behind(self, reported: ReportedCell) -> str:
        """How far behind the fastest: `21 % slower`, or `4.2 times as long`."""
        share = reported.over(self.fastest, "samples_per_s") or 0.0
        if self._is_near(reported):
            return f"{significant(100 * (1 - share), 2)} % slower"
        return f"{significant(1 / share, 2)} times as long" if share else "never ends"


def answers(sweeps: Sequence[Sweep]) -> list[Answer]:
    """An answer for each model and what is done with it; those with the most settings first."""
    found = [Answer(Recommendation(cells)) for cells in best.workloads(sweeps)]
    return sorted(found, key=lambda answer: not answer.others)
