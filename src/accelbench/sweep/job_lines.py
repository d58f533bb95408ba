"""Writes the lines about finished cells. Only the first line of a job names the job."""

from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from accelbench.answers import gains
from accelbench.answers.cells import PROCESS_SETTINGS, MeasuredCell, Process, cells_of
from accelbench.answers.gaps import Gap
from accelbench.answers.jobs import jobs
from accelbench.answers.words import disturbed_text, setting_words, speed_text, token_times
from accelbench.grid.plan import Planned
from accelbench.judging.row import warnings_of
from accelbench.judging.served import served_text
from accelbench.judging.warnings import interval_text
from accelbench.presentation import significant
from accelbench.schema.cell import Cell
from accelbench.schema.plan_file import WantedCell
from accelbench.schema.record import Record, Row
from accelbench.schema.vocab import UNEXPECTED, Status

FIGURES_WIDTH = 31  # columns for `  ok   168,000/s  ±6.2 %   1.8x !`


class JobLines:
    """The lines of a sweep's processes, `width` columns wide.

    The reference of a job is the setting of its first cell in `plan` that has run. `plan` has all cells of the folder.
    If `plan` is empty, `planned` is used instead. Each process has a line with its speed, and its gain: `speed / speed
    of the reference at the same batch`. If the reference has several processes, the gain uses the latest.
    """

    def __init__(
        self,
        planned: Sequence[Planned],
        width: int,
        earlier: Iterable[Record] = (),
        plan: Sequence[WantedCell] = (),
    ) -> None:
        self.width = width
        keys = dict.fromkeys(wanted.cell.key_without(PROCESS_SETTINGS) for wanted in plan or planned)
        self._places = {key: place for place, key in enumerate(keys)}  # key of a cell -> its place in the plan
        # job -> its cells by their place in the plan and key, each with its latest process
        self._of_job: dict[object, dict[tuple[int, str], MeasuredCell]] = {}
        for record in earlier:
            self._gain(Process.of(record))
        # Words that all cells share are printed once above the lines. Each line has its precision and batch.
        words = [[item.cell.mode, *setting_words(item.cell, item.label)] for item in planned]
        first = words[0][:3] + words[0][5:] if len(words) > 1 else []
        self._shared = [word for word in first if all(word in others for others in words)]
        self._above: tuple[str, str] | None = None  # the model and the mode of the line above
        self._models = max((len(item.cell.model.name) for item in planned), default=0)
        longest = max((len(self._begin(item.cell, item.label)) for item in planned), default=0)
        self._column = min(longest, width - FIGURES_WIDTH)  # where figures begin
        if longest > width:
            self._models = 0  # 0: no models above each other

    def name(self, item: Planned) -> str:
        """Returns the cell's job and settings, such as `cnn train keras fp32 b128`."""
        return f"{item.cell.model.name} {item.cell.mode} {self._setting(item.cell, item.label)}"

    def of(self, record: Record, reason: str | None) -> Iterator[Text]:
        """Yields the line of a finished cell. Names the job if the line above is about another job.

        Args:
            reason: why the cell is not ok.
        """
        if self._above is None and self._shared:
            yield Text(f"  {' · '.join(self._shared)}", "dim")
        cell = record.cell
        process = Process.of(record)
        row = process.own_row
        begin = self._begin(cell, record.label)
        self._above = (cell.model.name, cell.mode)
        if len(begin) > self._column:
            yield Text(begin)
            begin = "  "
        line = Text(f"{begin.ljust(self._column)}  ")
        if row["disturbed"]:
            yield line.append(disturbed_text(process), "dim")
            return
        line.append(record.status, "green" if record.status == Status.ok else "bold red")
        if record.status in UNEXPECTED:
            yield line.append(f"  {reason}" if reason else "")
            return
        if row["samples_per_s"] is None:
            line.append(f"  {served_text(row).removeprefix('target ')}{f' {gains.DOUBT}' if warnings_of(row) else ''}")
        else:
            line.append(self._speed(process, row))
        for word in details(record, row):
            if len(line) + len(word) + 2 <= self.width:
                line.append(f"  {word}")
        line.rstrip()
        yield line

    def _begin(self, cell: Cell, label: str) -> str:
        """Returns the start of a cell's line: its model, its mode, and the settings that not all cells share.

        Leaves out the model and the mode if they are the same as in the line above.
        """
        model, mode = self._above or ("", "")
        name = "" if model == cell.model.name else cell.model.name
        how = "" if (model, mode) == (cell.model.name, cell.mode) else cell.mode
        job = f"  {name:<{self._models}}  "
        if cell.mode not in self._shared:
            job += f"{how:<5}  "
        return job + self._setting(cell, label)

    def _setting(self, cell: Cell, label: str) -> str:
        return " ".join(word for word in setting_words(cell, label) if word not in self._shared)

    def _speed(self, process: Process, row: Row) -> Text:
        """Returns the speed with its interval, the gain, and a mark if the speed or the gain is in doubt."""
        gain = self._gain(process)
        rate = speed_text(process.cell, row["samples_per_s"]).replace(" samples", "")
        ratio = "" if gain is None else f"{significant(gain.ratio, 2)}x"
        is_doubted = warnings_of(row) or (gain is not None and gain.is_doubtful)
        mark = gains.DOUBT if is_doubted else " "
        return Text.assemble(f"  {rate:>8}  {interval_text(row):<6}  ", (f"{ratio:>5}", "bold"), (f" {mark}", "yellow"))

    def _gain(self, process: Process) -> Gap | None:
        """Returns the gain over the reference's latest process. None for the reference, or if it has not run."""
        (cell,) = cells_of([process])
        if not cell.competes:
            return None
        cells = self._of_job.setdefault((cell.workload_key, cell.place_key), {})
        place = self._places.get(process.cell.key_without(PROCESS_SETTINGS), len(self._places))
        cells[place, cell.measured_key] = cell
        (job,) = jobs(cells[key] for key in sorted(cells))
        return job.gain_of(cell)


def details(record: Record, row: Row) -> list[str]:
    """Returns an ok cell's numbers other than the speed, as short texts."""
    p50_ms, accuracy = row["latency_p50_ms"], row["accuracy"]
    words = [token_times(row)]
    if not words[0] and p50_ms is not None:
        words = [f"{significant(p50_ms)} ms"]
    if accuracy is not None:
        words.append(f"test accuracy {significant(100 * accuracy)} %")
    return list(filter(None, words))
