"""The answers: for each model and what is done with it, the fastest setting, and how sure that is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from accelbench.compare.command_words import settling_command
from accelbench.compare.confidence import Confidence, Sureness, behind, verdict_text
from accelbench.compare.verdict import Verdict
from accelbench.judging.row import warnings_of
from accelbench.judging.warnings import DISAGREEMENT, output_error_text
from accelbench.presentation import significant
from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables import best
from accelbench.report.tables.first_screen import Recommendation, recommendations
from accelbench.schema.vocab import ARRAYS, MODULE, Library, Mode

MAX_CANDIDATES = 4
MODES = {Mode.train: "training", Mode.infer: "inference"}
# The samples of these data sets and libraries may be anything; of all others they are images.
OTHER_DATA, OTHER_LIBRARIES = {ARRAYS, MODULE}, {Library.transformers, Library.lightning}
# Columns that tell answers of one name apart.
TELLING = ("weights", "steps", "epochs", "num_workers", "seed")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A setting that was measured, at its fastest batch size.

    Attributes:
        names: of the records of this setting, of all batch sizes.
        text: such as `bf16, batch 16`.
        label: the same in short, such as `cpu bf16 b16`.
        device: the device's word.
        verdict: `fastest`, or how far behind it is and how sure that is, such as `21 % slower, sure`.
        share: its speed as a share of the largest that is shown, whiskers included.
        low_share, high_share: the 95 % interval of its speed within its process, the same; None if unknown.
        rate: its speed with its unit.
        warnings: about its measurement.
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
    warnings: list[str]


@dataclass(frozen=True)
class Answer:
    """What to use for one model, and what is done with it.

    Attributes:
        found: its cells.
        limit_ms: the longest median latency of these; None without a limit.
        apart: what tells it from other answers about the same model; may be empty.
    """

    found: Recommendation
    limit_ms: float | None = None
    apart: str = ""

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
        """The data, how they are fed, and what tells this answer apart, such as `random 3x224x224 host`."""
        return ", ".join(filter(None, [best.data_text(self.fastest), self.found.where, self.apart]))

    @property
    def title(self) -> str:
        """What it is about, such as `resnet18, inference (random 3x224x224)`."""
        return f"{self.what} ({self.data})"

    @cached_property
    def others(self) -> list[ReportedCell]:
        """The fastest cell of each other setting, the fastest first; of other batch sizes if there is one setting."""
        return self.found.others or self.found.by_speed[1:]

    @cached_property
    def confidence(self) -> Confidence | None:
        """How sure it is that the fastest is faster than the next one; None if nothing else was measured."""
        return self._confidence(self.others[0]) if self.others else None

    @property
    def sentence(self) -> str:
        """What is the fastest, by how much, and how sure that is."""
        within = "" if self.limit_ms is None else f" within {self.limit_ms:g} ms"
        first, rate = self._text(self.fastest), self._rate(self.fastest)
        if self.confidence is None:
            alone = f"Nothing else is{within}." if within else "It is the only setting that was measured in full."
            return f"{first} gives {rate}{self._latency}. {alone}"
        other = self._text(self.others[0])
        second = f"{other} {self._behind(self.others[0])}"
        if self.confidence.verdict == Verdict.same:
            return f"{first} and {other} are equally fast{within}, {rate}{self._latency} (sure)."
        if self.confidence.sureness == Sureness.cant_tell:
            why = f": {self.confidence.detail}" if self.confidence.detail else ""
            return f"{first} measured fastest{within}, {rate}{self._latency}; {second}, but can't tell{why}."
        return f"{first} is fastest here{within}, {rate}{self._latency}; {second} ({self.confidence.sureness})."

    @property
    def remark(self) -> str:
        """How far the output of the fastest is from fp32's; empty if it is not of a lower precision."""
        text = output_error_text(self.fastest.cell.precision, self.fastest.number("output_error"))
        return text and f"Its output differs from fp32's by {text} for two samples."

    def larger_batch(self, cells: Iterable[ReportedCell]) -> str:
        """Says that no larger batch was tried, if the fastest has the largest of several; else empty.

        Args:
            cells: all that were planned, whatever became of them: a larger batch may have run out of memory.
        """
        fastest = self.fastest.cell
        alike = [each.cell for each in cells if (each.cell.model, each.cell.mode) == (fastest.model, fastest.mode)]
        sizes = {cell.batch_size for cell in alike}
        if self.limit_ms is not None or len(sizes) == 1 or fastest.batch_size < max(sizes):
            return ""
        return f"No batch above {fastest.batch_size:,} was tried: a larger one may be faster."

    @property
    def candidates(self) -> list[Candidate]:
        """The fastest settings, for a picture of bars."""
        shown = [self.fastest, *self.others[: MAX_CANDIDATES - 1]]
        ends = [reported.number(f"samples_per_s{end}") or 0.0 for reported in shown for end in ("", "_high")]
        return [self._candidate(reported, max(ends) or 1.0) for reported in shown]

    @property
    def num_more(self) -> int:
        """How many settings the picture leaves out."""
        return max(0, len(self.others) - MAX_CANDIDATES + 1)

    @property
    def command(self) -> str | None:
        """The command that may decide between the two fastest.

        None if processes in turns have decided, or could not, or if no command can repeat the cells.
        """
        if self.confidence is None or self.confidence.ratio is not None:
            return None
        return settling_command(self.fastest.cell, self.others[0].cell)

    def _candidate(self, reported: ReportedCell, largest: float) -> Candidate:
        rate, low, high = (reported.number(f"samples_per_s{end}") for end in ("", "_low", "_high"))
        verdict = "fastest"
        if reported is not self.fastest:
            verdict = verdict_text(self._confidence(reported), reported.over(self.fastest, "samples_per_s"))
        return Candidate(
            names=self.found.names_like(reported) if self.found.others else [reported.name],
            text=self._text(reported),
            label=self.found.text(reported.row),
            device=reported.cell.device.value,
            verdict=verdict,
            share=(rate or 0.0) / largest,
            low_share=None if low is None else low / largest,
            high_share=None if high is None else high / largest,
            rate=self._rate(reported),
            warnings=warnings_of(reported.row),
        )

    def _confidence(self, other: ReportedCell) -> Confidence:
        """How sure it is that the fastest is faster than `other`."""
        if other.name not in self._confidences:
            self._confidences[other.name] = self.found.confidence(other)
        return self._confidences[other.name]

    @cached_property
    def _confidences(self) -> dict[str, Confidence]:
        """By record name: each takes a bootstrap, and is asked for several times."""
        return {}

    def _text(self, reported: ReportedCell) -> str:
        """A setting and its batch, such as `bf16 on gpu, batch 16`."""
        row = reported.row
        on = f" on {row['device']}" if self.found.has_devices else ""
        options = self.found.options(row)
        return f"{row['precision']}{on}{f' with {options}' if options else ''}, batch {row['batch_size']}"

    def _rate(self, reported: ReportedCell) -> str:
        model, data = reported.cell.model, reported.cell.data.name
        is_other = model.batch or model.library in OTHER_LIBRARIES or data in OTHER_DATA
        return f"{significant(reported.number('samples_per_s'))} {'samples' if is_other else 'images'}/s"

    @property
    def _latency(self) -> str:
        p50_ms = self.fastest.number("latency_p50_ms")
        if p50_ms is None:
            return ""
        disagrees = any(text.startswith(DISAGREEMENT) for text in warnings_of(self.fastest.row))
        return f", median step {significant(p50_ms)} ms" + " (which disagrees with the rate)" * disagrees

    def _behind(self, reported: ReportedCell) -> str:
        """How far behind the fastest: `is 21 % slower`, or `takes 4.2 times as long`."""
        text = behind(self._confidence(reported), reported.over(self.fastest, "samples_per_s"))
        return f"takes {text}" if text.endswith("long") else f"is {text}"


def answers(sweeps: Sequence[Sweep]) -> list[Answer]:
    """An answer for each model and what is done with it; those that chose between several settings first."""
    found = [Answer(each) for each in recommendations(sweeps)]
    told: dict[tuple[str, str], list[Answer]] = {}
    for answer in found:
        told.setdefault((answer.what, answer.data), []).append(answer)
    distinct = [Answer(answer.found, apart=_apart(answer, told[answer.what, answer.data])) for answer in found]
    return sorted(distinct, key=lambda answer: not answer.others)


def _apart(answer: Answer, alike: Sequence[Answer]) -> str:
    """The settings in which an answer differs from others of the same name, such as `steps=512`."""
    row = answer.fastest.row
    differing = [name for name in TELLING if len({other.fastest.row[name] for other in alike}) > 1]
    return ", ".join(f"{name}={row[name]}" for name in differing if row[name] is not None)
