"""What a sweep shows: its progress, how its cells ended, the card of one cell, and which of several is the fastest."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from accelbench.answers.cells import cells_of
from accelbench.answers.headline import tips
from accelbench.answers.process import Process
from accelbench.answers.sentences import Answer, answers
from accelbench.answers.time_to_goal import target_answers
from accelbench.answers.words import disturbed_text, speed_text, speed_unit, token_times
from accelbench.grid.estimate import Evidence, Length, lengths
from accelbench.grid.plan import Planned
from accelbench.judging.row import phases_ms, remarks_in, summarise, tails, warnings_of
from accelbench.judging.served import limit_text, served_text
from accelbench.judging.verdict import ALLOWED, BUSY_VARIABLE, DISTURBED, why_disturbed
from accelbench.judging.warnings import Kind, counted_samples, output_error_text, relative_half_width
from accelbench.presentation import (
    and_more,
    checked_words,
    counted,
    duration,
    say,
    shortened,
    significant,
    unit_of_work,
)
from accelbench.project import shown
from accelbench.report import gains
from accelbench.report.read import read
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Quantile, Serving
from accelbench.schema.record import Record, Row, number_of
from accelbench.schema.vocab import QUANTIZED, UNEXPECTED, Mode, Phase, Protocol, Provenance, Status

if TYPE_CHECKING:
    from accelbench.sweep.run import SweepResult

# Of the line about what is under way; .3 % of a core, where the ten times a second of rich's `Progress` take .9 %.
DRAWN_HZ = 5
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
ECHO_WIDTH = 3  # of a terminal's ^C: else it would be on another line, and this one would stay
LEAST_NAME = 12  # columns of a cell's name on a narrow terminal
OUTCOME_WIDTH = 37  # columns of ` ok       71.91 samples/s ±22.1 %  !`
STYLES: dict[str, str] = {Status.ok: "green", Status.skipped: "dim"}
UNCOUNTED = "no answer counts such a cell"
BUSY_HINT = f"on a machine that is never quiet, {BUSY_VARIABLE}={ALLOWED} has such cells count"
MAX_WORKLOADS = 3  # for more, the report and `accelbench best` are the places to look
MAX_CELLS = 12
MAX_DOUBTS = 2  # of a card or an answer
BAR_WIDTH = 48
NAME_WIDTH = 8
MAX_ERROR_LINES = 16  # of the user's own code; a traceback through frameworks is longer, and is in the record
FILLS = (("█", "blue"), ("░", "yellow"), ("▓", "cyan"), ("▒", "magenta"))  # of a step's phases, one after the other


class SweepProgress:
    """Progress of one sweep: a line for each cell; if it is `brief`, for failures alone.

    A terminal also has a line about what is under way. It shows life: how long it has taken, beside how long it takes.
    """

    def __init__(
        self,
        console: Console,
        planned: Sequence[Planned],
        evidence: Evidence,
        *,
        is_brief: bool = False,
        says_mistakes: bool = True,  # else the caller says what the user did wrong
    ) -> None:
        self.console, self.evidence = console, evidence
        self.planned = [item for item in planned if item.skip_reason is None]
        self.num = len(self.planned)
        self._ids = {item.cell.id for item in self.planned}
        self.is_brief, self.says_mistakes, self.num_done = is_brief, says_mistakes, 0
        self._told: str | None = None  # the reason of the latest failure
        self._started: list[Cell] = []
        self.begin("preparing")
        self._live = Live(console=console, get_renderable=self._line, refresh_per_second=DRAWN_HZ, transient=True)

    def __enter__(self) -> "SweepProgress":
        if self.console.is_terminal:
            self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def begin(self, what: str, expected: Length | None = None, then: str = "") -> None:
        """Shows `what` is under way from now on, how long it is `expected` to take, and what comes `then`."""
        self.what = what
        self._expected = expected
        self._then = then
        self._began_s = time.monotonic()

    def start(self, planned: Planned) -> None:
        """Shows the cell that is measured now, and how long it and those after it will take."""
        if not self.console.is_terminal or planned.skip_reason is not None:
            return
        others = [] if self.is_brief else self.planned[self.num_done + 1 :]
        cells = [planned.cell, *(item.cell for item in others)]
        expected, *later = lengths(cells, self.evidence, self._started)
        then = f", then {sum(later, Length())}" if later else ""
        self.begin(planned.label, expected, then)
        self._started.append(planned.cell)

    def _line(self) -> Text:
        """The line about what is under way, which is drawn again and again, as it is now."""
        took_s = time.monotonic() - self._began_s
        spin = f"{SPINNER[int(DRAWN_HZ * took_s) % len(SPINNER)]} "
        count = "" if self.is_brief or self._expected is None else f"{min(self.num_done + 1, self.num)}/{self.num} "
        took = f"{took_s:.0f} s" if took_s < 120 else f"{int(took_s) // 60}:{int(took_s) % 60:02} min"
        expected = self._expected
        if expected is not None and expected.num_unknown:
            took += ", no estimate"
        elif expected is not None:
            took += f" of {expected}" if took_s <= max(1.0, expected.seconds) else f", {expected} expected"
        room = self.console.width - ECHO_WIDTH - len(f"{spin}{count}  {took}{self._then}")
        what = shortened(self.what, max(LEAST_NAME, room))
        line = Text.assemble((spin, "cyan"), count, f"{what}  ", (f"{took}{self._then}", "dim"))
        line.truncate(self.console.width - ECHO_WIDTH, overflow="ellipsis")
        return line

    def finish(self, record: Record) -> None:
        """Prints the cell's outcome. Skipped cells get no line: `conclude` counts them by reason."""
        self.evidence.add(record)
        self.num_done += record.cell.id in self._ids
        if self.is_brief and record.status in UNEXPECTED:
            say(self.console, f"{record.label}: {record.status}: {record.reason}", "red")
        if self.is_brief or record.status == Status.skipped:
            return
        count = f"[{self.num_done:>{len(str(self.num))}}/{self.num}] "
        width = max((len(each.label) for each in self.planned), default=0)
        words = [] if record.user_error and not self.says_mistakes else outcome(record)
        is_disturbed = why_disturbed(record) is not None  # then its words begin with the speed, and say it
        word = "" if is_disturbed else record.status.value
        if words and record.status in UNEXPECTED:
            reason = words[0]
            if reason == self._told:
                words = ["for the same reason"]
            self._told = reason
        if self.console.is_terminal:  # one line: a name loses its middle, then figures after the speed go
            width = min(width, max(LEAST_NAME, self.console.width - len(count) - OUTCOME_WIDTH))
            is_doubted = len(words) > 1 and words[-1].endswith(("doubt", "doubts"))
            if is_doubted:
                words[-1] = gains.DOUBT
            least = 2 if is_doubted else 1
            while len(words) > least and len(count) + width + len("  ".join([word, *words])) >= self.console.width:
                del words[1]
        name = shortened(record.label, width)
        line = Text.assemble((count, "dim"), f"{name:<{width}} ", (word, STYLES.get(word, "bold red")))
        line.append("".join(f"  {each}" for each in words))
        say(self.console, line, "dim" if is_disturbed else "")


def outcome(record: Record) -> list[str]:
    """One cell's result in a few words and figures, the speed first."""
    if record.status in UNEXPECTED or record.status == Status.skipped:
        return [record.reason or "no reason was given"]
    if why_disturbed(record):
        return [disturbed_text(Process.of(record))]
    row = summarise(record)
    words = []
    if isinstance(rate := row["samples_per_s"], float):
        (size, unit) = speed_unit(record.cell)
        width = relative_half_width(row)
        rate *= size
        bounds = "" if width is None else f" ±{100 * width:.1f} %"
        words.append(f"{rate:>11,.{0 if rate >= 100 else 2}f} {unit}{bounds}")
    if times := token_times(row):
        words.append(times)
    elif isinstance(row["latency_p50_ms"], float):
        words.append(f"{row['latency_p50_ms']:>9.3f} ms/step")
    if text := served_text(row):
        words += text.split(", ")
    if isinstance(row["accuracy"], float):
        words.append(f"accuracy {row['accuracy']:.4f}")
    words += (samples := counted_samples(record))
    if num := len(warnings_of(row)) - len(samples):
        words.append(counted(num, "doubt"))
    return words


def conclude(result: "SweepResult", console: Console) -> None:
    """Prints how the cells ended, why cells were skipped, how long a quiet machine was waited for, and the folder.

    Not why the cells of this sweep failed: its progress said that.
    """
    records = result.records
    folder = shown(result.folder)
    processes = [Process.of(record) for record in records]
    counts = Counter(process.outcome for process in processes)
    say(console, ", ".join(f"{num} {outcome}" for outcome, num in counts.most_common()))
    if why := [process.disturbed for process in processes if process.disturbed]:
        again = f"the same command with out={folder} retry=failed; {BUSY_HINT}"
        say(console, f"  {DISTURBED}: {why[0]}; {UNCOUNTED}{_waited(result.waited_s)}.", "yellow")
        say(console, f"  To measure again: {again}", "yellow")
    say_skipped([record.reason for record in records if record.status == Status.skipped], console)
    for bad in [record for record in records if record.status in UNEXPECTED and record.sweep_id != result.sweep_id]:
        say(console, f"  {bad.label}: {bad.status}: {outcome(bad)[0]}", "red")
    took_s = sum(record.wall_s for record in records)
    say(console, f"Records: {folder} ({duration(took_s)} of measuring)")


def _waited(waited_s: float) -> str:
    return f"; waited {duration(waited_s)} for a quiet machine" if waited_s else ""


def say_skipped(reasons: Sequence[str | None], console: Console) -> None:
    """Says why cells were skipped; `reasons` has one for each."""
    for reason, num in Counter(reasons).most_common():
        say(console, f"  skipped {num}: {reason}", "dim")


def show_answer(records: Sequence[Record], folder: str, console: Console) -> None:
    """Prints what to use for each model and mode, how to be sure, and where to look further.

    Nothing without an ok cell.
    """
    planned = [Process.of(record) for record in records]
    cells = cells_of(planned)
    of_works = answers(cells)
    has_targets = any(cell.cell.protocol == Protocol.target for cell in cells)
    trained = target_answers(read(Path(folder)).cells) if has_targets else []  # with the seeds that are missing
    if not of_works and not trained:
        return
    for training in trained[:MAX_WORKLOADS]:
        say(console, f"\n{training.sentence}")
    show_answers(of_works, planned, console)
    for tip in tips(cells):
        say(console, tip, "dim")
    console.print()
    if any(answer.lead and not answer.lead.is_interleaved for answer in of_works):
        say(console, f"Sure  accelbench compare --top {folder}")
    say(console, f"Page  accelbench report {folder}")


def show_answers(found: Sequence[Answer], planned: Sequence[Process], console: Console) -> None:
    """Prints the gains of many jobs over what their users run today; of few, the cells of each, the fastest first."""
    if len(found) > MAX_WORKLOADS:
        console.print()
        for line in gains.of_jobs(found, console.width):
            say(console, line)
        return
    for answer in found:
        console.print()
        for line in gains.of_one(answer, console.width, MAX_CELLS):
            say(console, line)
        for line in remarks(answer, planned):
            say(console, line)


def remarks(answer: Answer, planned: Iterable[Process]) -> Iterator[Text]:
    """What to know before using the fastest of the planned cells."""
    if words := " ".join(filter(None, [answer.remark, answer.larger_batch(planned)])):
        yield Text(words)
    doubts = warnings_of(answer.fastest.row)
    for text in doubts[:MAX_DOUBTS]:
        yield Text(f"Doubt about the fastest: {text}", "yellow")
    if (num := len(doubts) - MAX_DOUBTS) > 0:
        yield Text(f"{and_more(num, 'doubt')}, in its record", "yellow")
    if num := sum(bool(warnings_of(cell.row)) for cell in answer.group.cells[1:]):
        yield Text(f"{counted(num, 'slower cell')} in doubt: the report says why", "dim yellow")


def show_card(record: Record, path: str, console: Console, *, says_why: bool = True, waited_s: float = 0.0) -> None:
    """Prints the card of a record of any status, whose file is at `path`; unknown figures have no line.

    With `says_why`, also why its cell failed, where nothing else says so. `waited_s`: for a quiet machine.
    """
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True, min_width=NAME_WIDTH)
    table.add_column(overflow="fold")
    for name, text in _card_lines(record, summarise(record), says_why, waited_s):
        table.add_row(name, text if isinstance(text, Text) else Text(text))
    console.print()
    console.print(Padding(table, (0, 0, 0, 2), expand=False))
    # No part of the table, which would wrap it.
    console.print(Text.assemble("  ", (f"{'record':<{NAME_WIDTH + 2}}", "bold"), path, "\n"), soft_wrap=True)


def own_calls(error: str | None) -> str:
    """The calls in a traceback, whose reason stands elsewhere; empty if it is long, as one through frameworks is."""
    lines = (error or "").splitlines()
    return "\n".join(line for line in lines if line.startswith(" ")) if len(lines) <= MAX_ERROR_LINES else ""


def _card_lines(record: Record, row: Row, says_why: bool, waited_s: float) -> Iterator[tuple[str, Text | str]]:
    is_ok = record.status == Status.ok
    speed = number_of(row, "samples_per_s")
    requests = number_of(row, "requests_per_s")
    outcome = f"{significant(requests, 4)} requests/s" if is_ok and requests is not None else record.status.value
    outcome = speed_text(record.cell, speed, digits=4) if is_ok and speed is not None else outcome
    is_disturbed = bool(row["disturbed"])
    outcome = disturbed_text(Process.of(record)) if is_disturbed else outcome
    device = "" if row["device_name"] is None else f" on {row['device_name']}"
    data = f", {row['data']}" + " (a stand-in)" * record.data.stand_in if record.data and is_ok else ""
    yield "cell", Text(f"{record.label}: {outcome}{device}{data}", "dim" if is_disturbed else "")
    if record.reason and (says_why or record.status not in UNEXPECTED):
        yield "reason", record.reason
    if is_disturbed:
        yield "reason", f"{UNCOUNTED}{_waited(waited_s)}"
        yield "tip", BUSY_HINT
    if record.error and record.cell.own_code and len(record.error.splitlines()) <= MAX_ERROR_LINES:
        yield "error", Text(own_calls(record.error) or record.error.rstrip(), "dim")
    if is_ok and not is_disturbed:
        yield from _speed(record.cell, row)
        if record.measurement and record.measurement.serving:
            yield from _served(record.cell, record.measurement.serving, row)
        if row["target_reached"] is not None:
            yield "target", served_text(row).removeprefix("target ")
        yield from _use(record, row)
    for kind in (Kind.note, Kind.tip):
        for text in remarks_in(row, kind):
            yield kind.name, text
    doubts = warnings_of(row)
    for doubt in doubts[:MAX_DOUBTS]:
        yield "doubt", Text(doubt, "yellow")
    if (num := len(doubts) - MAX_DOUBTS) > 0:
        yield "", Text(f"{and_more(num, 'doubt')}, in the record", "yellow")


def _speed(cell: Cell, row: Row) -> Iterator[tuple[str, Text | str]]:
    """How fast the cell is, and where a step's time goes."""
    low, high = (number_of(row, f"samples_per_s_{end}") for end in ("low", "high"))
    if low is not None and high is not None:
        yield "speed", f"{speed_text(cell, low, high, digits=4)} with 95 % confidence, in this process"
    if (tokens := number_of(row, "tokens_per_s")) is not None and cell.mode != Mode.generate:
        yield "tokens", f"{significant(tokens, 4)} tokens/s"
    if (first := number_of(row, "ttft_ms")) is not None:
        rate, size = (significant(number_of(row, column), 4) for column in ("decode_tokens_per_s", "kv_cache_mb"))
        yield "prefill", f"first token after {significant(first)} ms"
        yield "decode", f"{rate} tokens/s; {tails(row, 'tpot')} a token; key-value cache {size} MB"
    if latencies := tails(row, "latency"):
        yield "latency", latencies
    phases = phases_ms(row)
    if total := sum(phases.values()):
        yield "step", _bar(phases, total)
        percents = {phase.replace("_", " "): 100 * ms / total for phase, ms in phases.items()}
        # Not in milliseconds: these few steps are timed phase by phase, and so are not as long as those above.
        yield "", ", ".join(f"{phase} {percent:.0f} %" for phase, percent in percents.items() if percent >= 0.5)


def _served(cell: Cell, serving: Serving, row: Row) -> Iterator[tuple[str, str]]:
    """How requests came, and how they were answered."""
    offered = f"{significant(serving.offered_per_s, 4)} offered and " if cell.protocol == Protocol.server else ""
    rates = f"{offered}{significant(serving.served_per_s, 4)} answered per second"
    yield "requests", f"{rates}, {counted(serving.num_requests, 'request')} in {duration(serving.duration_s)}"
    if quantiles := [_quantile(quantile) for quantile in serving.latencies if quantile.seconds is not None]:
        yield "latency", ", ".join(quantiles)
    if serving.verdict is not None:
        low, high = (100 * (number_of(row, f"miss_share_{end}") or 0.0) for end in ("low", "high"))
        share = f"the share is {significant(round(low, 3), 2)} to {significant(high, 2)} %"
        yield "verdict", f"{serving.verdict}: {limit_text(row)}; {serving.num_missed:,} took longer, {share}"


def _quantile(quantile: Quantile) -> str:
    """Such as `p99 23.1 ms (21 to 26)`."""
    low, high = (significant(None if end is None else 1000 * end) for end in (quantile.low, quantile.high))
    bounds = "" if quantile.low is None and quantile.high is None else f" ({low} to {high})"
    return f"p{quantile.percentile:g} {significant(1000 * (quantile.seconds or 0.0))} ms{bounds}"


def _use(record: Record, row: Row) -> Iterator[tuple[str, str]]:
    """What the cell takes of the device and the memory, how long all of it takes, and how good the result is."""
    cell, measured = record.cell, record.measurement
    limits = [] if row["bound"] is None else [f"bound by {row['bound']}"]
    share, ceiling = number_of(row, "mfu"), number_of(row, "ceiling_flops_per_s")
    if share is not None and ceiling is not None:
        unit, size = unit_of_work(ceiling, is_quantized=cell.precision in QUANTIZED)
        limits.append(f"{100 * share:.1f} % of the {significant(ceiling / size)} {unit} that were probed")
    peaks = {"the processes": number_of(row, "peak_host_mb"), "the device": number_of(row, "peak_device_mb")}
    memory = [f"{significant(peak)} MB of {place}" for place, peak in peaks.items() if peak is not None]
    accuracies = {"test accuracy": "accuracy", "training accuracy": "train_accuracy"}
    values = {name: number_of(row, column) for name, column in accuracies.items()}
    quality = [f"{name} {100 * value:.2f} %" for name, value in values.items() if value is not None]
    if error := output_error_text(cell.precision, number_of(row, "output_error")):
        quality.append(f"output differs from fp32's by {error}")
    if limits:
        yield "limit", ", ".join(limits)
    if memory:
        yield "memory", "at most " + ", ".join(memory)
    if (time_s := number_of(row, "time_s")) is not None:
        whole = f"training, epochs={cell.epochs}," if cell.mode == Mode.train else "inference over the test set"
        estimated = " (estimated from the speed)" if row["time_provenance"] == Provenance.estimated else ""
        yield "time", f"{whole} takes {significant(time_s)} s{estimated}"
    if quality:
        yield "quality", ", ".join(quality)
    if measured is not None and (checked := checked_words(measured.checks, fully=True)):
        yield "checked", checked


def _bar(phases: Mapping[Phase, float], total: float) -> Text:
    """A step's wall time as a bar of phases; rounding their ends, not their lengths, keeps the total width."""
    bar, done = Text(), 0.0
    for number, value in enumerate(phases.values()):
        start = round(BAR_WIDTH * done / total)
        done += value
        fill, colour = FILLS[number % len(FILLS)]
        bar.append(fill * (round(BAR_WIDTH * done / total) - start), colour)
    return bar
