import io
import math

import pytest
from rich.console import Console

from accelbench.errors import UserError
from accelbench.isolation.hosts import Hosts
from accelbench.schema.cell import Precision, Protocol
from accelbench.search import largest_batch
from accelbench.search.largest_batch import next_batch
from accelbench.sweep.run import SweepResult
from fakes import faulty_host, make_cell, make_measurement, make_options, make_record


@pytest.mark.parametrize("limit", [3, 100, 1000, 33_333, 1 << 19])
@pytest.mark.parametrize("fixed", [0, 100, 1000])
def test_the_limit_is_found_within_an_eighth_and_no_try_needs_much_more(limit, fixed):
    fits, fails, room, tried = 0, math.inf, 2.0, [1]
    while tried[-1] is not None:
        if tried[-1] <= limit:
            fits, room = tried[-1], (fixed + limit) / (fixed + tried[-1])
        else:
            fails = tried[-1]
        tried.append(next_batch(fits, fails, room))
    assert fits <= limit < fails
    assert fails - fits <= max(1, fits / 8)
    assert len(tried) - 1 <= limit.bit_length() + (4 if not fixed else 20)
    assert max(tried[:-1]) <= max(limit + 1, 1.14 * limit)


OPTIONS = make_options(tracking="mlflow", out=None)


def test_when_the_time_is_over_the_largest_that_fits_is_told(project, monkeypatch):
    def swept(cells, options, console, *, hosts, show):
        (cell,) = cells
        assert (cell.protocol, cell.steps, cell.breakdown_s, options.tracking) == (Protocol.steps, 1, 0, "none")
        assert options.out in (None, str(project / "runs/mine/new"))
        measured = make_measurement(peak_host_bytes=10**9 + cell.batch_size * 2 * 10**8)
        record = make_record(cell, measurement=measured, wall_s=0.5 * cell.batch_size)
        return SweepResult(project / "runs/mine/new", [record])

    monkeypatch.setattr(largest_batch.run, "run", swept)
    console = Console(file=io.StringIO(), width=200)
    assert largest_batch.find(make_cell(batch_size=4), OPTIONS, console, None, 7.0) == 0
    assert console.file.getvalue().splitlines()[1:] == [
        "4 samples, 2 s: fits, which takes 1.8 GB",
        "8 samples, 4 s: fits, which takes 2.6 GB",
        "The largest batch that fits: 8, which takes 2.6 GB; 16 was not tried: "
        "it takes about 8 s, longer than the rest of --budget (default: 1m).",
        "Records of the tries: runs/mine/new",
    ]


def test_a_cell_that_this_machine_skips_is_a_mistake_and_nothing_is_tried(project):
    skipped = make_cell(precision=Precision.tf32)  # which no CPU has
    console = Console(file=io.StringIO())
    with pytest.raises(UserError, match="--largest-batch: this machine skips .*tf32"):
        largest_batch.find(skipped, OPTIONS, console, None, 60.0)
    assert console.file.getvalue() == ""


def test_a_try_is_a_process_of_one_host_that_takes_the_memory_that_is_told(project):
    console = Console(file=io.StringIO(), width=200)
    with Hosts(faulty_host) as hosts:
        assert largest_batch.find(make_cell("tell peak", batch_size=32), OPTIONS, console, hosts, 60.0) == 0
        assert len(hosts._hosts) == 1
    assert "The largest batch that fits: 64, which takes 1.5 GB; more" in console.file.getvalue()
    assert len(list((project / "runs").glob("*/*-*.json"))) == 2
