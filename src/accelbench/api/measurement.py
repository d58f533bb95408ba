"""What `accelbench.measure` returns: the numbers of one measurement in this process, with their warnings."""

from dataclasses import dataclass, field

from accelbench.api import html
from accelbench.judging.row import warnings_of
from accelbench.presentation import significant
from accelbench.schema import measurement as schema
from accelbench.schema.record import Record, Row, number_of

NOT_ISOLATED = "not isolated: measured in a process that does other things"
PREFIXES = ("", "k", "M", "G", "T", "P")
NUMBERS = [f"{name}{end}" for name in ("samples_per_s", "latency_p50_ms") for end in ("", "_low", "_high")]
NUMBERS += ["latency_p90_ms", "latency_p99_ms", "mfu", "output_error"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Measurement:
    """One network or function, measured in this process. Unknown numbers are None, never 0."""

    name: str  # of the network's class or the function, or as the user chose it
    device: str  # `cpu` or `gpu`; of a function, the device that was waited for
    device_name: str  # the hardware's name
    mode: str | None  # `infer` or `train`; None for a function
    precision: str | None  # that was observed while it ran; None for a function
    samples: int  # per step
    samples_per_s: float | None  # throughput, the median of blocks of steps
    samples_per_s_low: float | None  # its 95 % interval in this process
    samples_per_s_high: float | None
    # Percentiles of the time of a step that is waited for, in milliseconds; None with too few steps.
    latency_p50_ms: float | None
    latency_p50_ms_low: float | None  # the median's 95 % interval
    latency_p50_ms_high: float | None
    latency_p90_ms: float | None
    latency_p99_ms: float | None
    # Floating-point operations of one step, counted from its operators; a multiply-add counts as two.
    flops: int | None
    # The share of the device's highest rate that was reached; None unless it was probed (`accelbench doctor --probe`).
    mfu: float | None
    # Norm of the difference between the output and fp32's on the CPU, over the norm of the latter.
    output_error: float | None
    warnings: list[str]  # what a reader of the numbers should know, a sentence each
    notes: list[str]  # what was measured, without a doubt about the numbers
    row: Row = field(compare=False)  # the columns of `cells.csv`; of a function, only those that are known of it
    raw: schema.Measurement = field(compare=False)  # all raw times

    @classmethod
    def of(cls, record: Record, row: Row, *, is_function: bool) -> "Measurement":
        """The measurement of `record`, whose row is `row`."""
        raw = record.measurement
        assert raw is not None, "it was measured"
        return cls(
            name=record.cell.model.name,
            device=raw.device,
            device_name=raw.device_name,
            mode=None if is_function else record.cell.mode.value,
            precision=None if is_function else raw.precision,
            samples=record.cell.batch_size,
            flops=raw.work.flops if raw.work else None,
            warnings=[*warnings_of(row), NOT_ISOLATED],
            notes=list(raw.notes),
            row=row,
            raw=raw,
            **{name: number_of(row, name) for name in NUMBERS},
        )

    def _lines(self) -> list[tuple[str, str]]:
        low, high = self.samples_per_s_low, self.samples_per_s_high
        rate = f"{significant(self.samples_per_s, 4)} samples/s"
        lines = [("speed", rate + (f" ({html.interval(low, high)} with 95 % confidence)" if low and high else ""))]
        tails = {50: self.latency_p50_ms, 90: self.latency_p90_ms, 99: self.latency_p99_ms}
        if known := [f"p{percent} {significant(value)} ms" for percent, value in tails.items() if value is not None]:
            lines.append(("latency", ", ".join(known)))
        if self.flops is not None:
            share = "" if self.mfu is None else f", {100 * self.mfu:.1f} % of what the device can do, as probed"
            power = min((len(str(self.flops)) - 1) // 3, len(PREFIXES) - 1)
            lines.append(("work", f"{significant(self.flops / 1000**power)} {PREFIXES[power]}FLOP a step{share}"))
        lines += [("note", note) for note in self.notes]
        return lines + [("warning", warning) for warning in self.warnings]

    @property
    def _what(self) -> str:
        words = [self.mode, self.device, self.precision, f"{self.samples} samples a step"]
        return f"{self.name}: {', '.join(filter(None, words))}, on {self.device_name}"

    def __repr__(self) -> str:
        """What was measured, and a line for each figure and warning."""
        return "\n".join([f"Measurement of {self._what}", *(f"  {name:<8} {text}" for name, text in self._lines())])

    def _repr_html_(self) -> str:
        """For notebooks: a small table."""
        return html.page([self._what], html.table(["", ""], [list(line) for line in self._lines()]))
