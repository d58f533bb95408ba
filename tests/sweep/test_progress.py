import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from accelbench.grid.estimate import Evidence
from accelbench.grid.plan import Planned
from accelbench.presentation import duration
from accelbench.schema.measurement import Block, Evaluation
from accelbench.schema.vocab import Protocol, Status
from accelbench.sweep.terminal import SweepProgress, outcome
from fakes import make_cell, make_measurement, make_record
from grid.finished import finished


@pytest.mark.parametrize("status", [status for status in Status if status != Status.ok])
def test_what_went_wrong_is_the_outcome(status):
    assert outcome(make_record(status=status)) == "for [a] reason"
    assert outcome(make_record(status=status, reason=None)) == "no reason was given"


def test_what_was_measured_is_the_outcome():
    evaluation = Evaluation(num_samples=50, seconds=1.0, loss=0.1, accuracy=0.98765)
    blocks = [Block(num_steps=100, num_samples=123_456, seconds=1.0)] * 6
    told = outcome(make_record(measurement=make_measurement(blocks=blocks, evaluation=evaluation)))
    assert told.split() == ["123,456", "samples/s", "±0.0", "%", "10.000", "ms/step", "accuracy", "0.9877"]
    assert outcome(make_record(measurement=make_measurement(blocks=[], latency_s=[]))) == ""


def shown(statuses, **options):
    console = Console(file=io.StringIO(), **options)
    cells = [make_cell(batch_size=size) for size in range(1, len(statuses) + 1)]
    items = [Planned(cell, "0" * 64, None) for cell in cells]
    with SweepProgress(console, items, Evidence()) as progress:
        for item, status in zip(items, statuses, strict=True):
            progress.start(item)
            progress.finish(make_record(item.cell, status))
    return console.file.getvalue()


def test_where_there_is_no_terminal_each_cell_is_one_plain_line():
    text = shown([Status.ok, Status.skipped, Status.failed], width=20)
    assert "\x1b" not in text
    first, second = text.splitlines()
    assert re.fullmatch(r"\[1/3\] mlp-cpu-fp32-b1-infer +ok +3,200 samples/s ±0\.0 % +10\.000 ms/step", first)
    assert re.fullmatch(r"\[3/3\] mlp-cpu-fp32-b3-infer +failed +for \[a\] reason", second)


@pytest.mark.parametrize("width", [80, 112, 200])
def test_a_line_that_a_terminal_would_break_is_two_lines(width):
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    label = "mlp/infer/random/fp32/cpu/b4096/compile/allocator=jemalloc/threads=2/channels_last"
    planned = Planned(cell=make_cell(), identity="0" * 64, skip_reason=None)
    progress = SweepProgress(console, [planned, planned], Evidence())
    progress.finish(make_record(measurement=make_measurement(warnings=["drift"]), label=label))
    lines = [line.strip() for line in console.file.getvalue().splitlines() if line.strip()]
    assert lines[0].startswith(f"[1/2] {label} ok")
    assert lines[-1].endswith("1 warning")
    assert len(lines) == (1 if width == 200 else 2)


def test_a_terminal_has_a_bar_with_the_cell_the_count_and_the_time_left():
    text = shown([Status.ok, Status.ok], width=120, force_terminal=True, color_system=None)
    assert "mlp-cpu-fp32-b2-infer" in text
    assert "about 1 s left" in text  # as long as the first one took
    assert "2/2" in text


def test_the_time_left_becomes_known_with_the_first_cells():
    cells = [make_cell(protocol=Protocol.steps, steps=100, batch_size=size) for size in (8, 32, 16, 16)]
    cells = [replace(cell, seed=seed) for seed, cell in enumerate(cells)]
    items = [Planned(cell, "0" * 64, None) for cell in cells]
    items.insert(2, Planned(make_cell(), "0" * 64, "a reason"))
    records = [finished(item.cell, step_s) for item, step_s in zip(items, (0.1, 0.1, 0.0, 0.1, 0.1), strict=True)]
    records[2] = make_record(items[2].cell, Status.skipped)
    console, lefts = Console(file=io.StringIO(), force_terminal=True), []
    with SweepProgress(console, items, Evidence()) as progress:
        for item, found in zip(items, records, strict=True):
            progress.start(item)
            lefts.append(progress.bar.tasks[0].fields["left"])
            progress.finish(found)
    took_s = records[3].wall_s
    assert lefts == [
        "unknown time left",
        f"at least {duration(3 * records[0].wall_s)} left",  # larger batches take at least as long
        *[f"about {duration(2 * took_s)} left"] * 2,
        f"about {duration(took_s)} left",
    ]
