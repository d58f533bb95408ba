"""What `accelbench.measure` returns: the numbers of one measurement in this process, with their warnings."""

from dataclasses import dataclass, field

from accelbench.api import html
from accelbench.judging.row import warnings_of
from accelbench.presentation import significant
from accelbench.schema import measurement as schema
from accelbench.schema.record import Record, Row, number_of

NOT_ISOLATED = "not isolated: measured in a process that does other things"
PREFIXES = ("", "k", "M", "G", "T", "P")


@dataclass(frozen=True, kw_only=True, repr=False)
class Measurement:
    """One network or function, measured in this process. Unknown numbers are None, never 0.

    Attributes:
        name: of the network's class or the function, or as the user chose it.
        device: `cpu` or `gpu`; of a function, the device that was waited for.
        device_name: the hardware's name.
        mode: `infer` or `train`; None for a function.
        precision: that was observed while it ran; None for a function.
        samples: per step.
        samples_per_s: throughput, the median of blocks of steps.
        samples_per_s_low, samples_per_s_high: its 95 % interval in this process.
        latency_p50_ms, latency_p90_ms, latency_p99_ms: percentiles of the time of a step that is waited for, in
            milliseconds; None with too few steps.
        latency_p50_ms_low, latency_p50_ms_high: the 95 % interval of the median.
        flops: floating-point operations of one step, counted from its operators; a multiply-add counts as two.
        mfu: the share of the device's highest rate that was reached, 0 to 1; None unless the device was probed
            (`accelbench doctor --probe`).
        output_error: norm of the difference between the output and fp32's on the CPU, over the norm of the latter.
        warnings: what a reader of the numbers should know, a sentence each.
        notes: what was measured, without a doubt about the numbers.
        row: the columns of `cells.csv`; of a function, only those that are known of it.
        raw: all raw times.
    """

    name: str
    device: str
    device_name: str
    mode: str | None
    precision: str | None
    samples: int
    samples_per_s: float | None
    samples_per_s_low: float | None
    samples_per_s_high: float | None
    latency_p50_ms: float | None
    latency_p50_ms_low: float | None
    latency_p50_ms_high: float | None
    latency_p90_ms: float | None
    latency_p99_ms: float | None
    flops: int | None
    mfu: float | None
    output_error: float | None
    warnings: list[str]
    notes: list[str]
    row: Row = field(compare=False)
    raw: schema.Measurement = field(compare=False)

    @classmethod
    def of(cls, record: Record, row: Row, *, is_function: bool) -> "Measurement":
        """The measurement of `record`, whose row is `row`."""
        raw = record.measurement
        assert raw is not None, "it was measured"
        columns = [f"{name}{end}" for name in ("samples_per_s", "latency_p50_ms") for end in ("", "_low", "_high")]
        columns += ["latency_p90_ms", "latency_p99_ms", "mfu", "output_error"]
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
            **{name: number_of(row, name) for name in columns},
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
            lines.append(("work", f"{_flops(self.flops)} a step{share}"))
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


def _flops(num: int) -> str:
    """Such as `1.23 GFLOP`."""
    power = min((len(str(num)) - 1) // 3, len(PREFIXES) - 1)
    return f"{significant(num / 1000**power)} {PREFIXES[power]}FLOP"
