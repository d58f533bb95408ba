import io
import re

import pytest
from rich.console import Console

from accelbench.errors import UserError
from accelbench.isolation.hosts import Hosts
from accelbench.schema.record import Record
from accelbench.schema.vocab import Protocol, Status
from accelbench.settings.config import Retry, SweepOptions
from accelbench.sweep import largest_batch
from accelbench.sweep.largest_batch import search
from accelbench.sweep.run import SweepResult
from fakes import faulty_host, make_cell, make_project


def make_record(cell, **changes):
    values = {"identity": "0" * 64, "started_at": "2026-11-20T09:00:00.000+00:00", "wall_s": 1.0, "environment": {}}
    return Record(cell=cell, **values, **changes)


@pytest.mark.parametrize("limit", [1, 2, 3, 17, 100, 1000, 4096])
@pytest.mark.parametrize("start", [1, 8, 128])
def test_the_largest_that_fits_is_found_to_an_eighth(limit, start):
    tried = []

    def fits(batch):
        tried.append(batch)
        return batch <= limit

    largest, smallest = search(fits, start)
    assert largest <= limit < smallest
    assert smallest - largest <= max(1, largest / 8)
    assert len(tried) == len(set(tried)) <= 20


def test_where_nothing_fits_there_is_none():
    assert search(lambda batch: False, 8) == (None, 1)


def test_the_search_ends_at_what_is_asked_for_at_most():
    assert search(lambda batch: True, 8, most=100) == (100, None)


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(make_project(tmp_path))
    return tmp_path


OPTIONS = SweepOptions(
    suite="s", title="", study=None, profile=None, tracking="mlflow", out=None, retry=Retry.none, verbose=False
)


@pytest.fixture
def tries(monkeypatch, project):
    """Runs of cells that end as the batch has them, and what was said."""

    def use(ends):
        def swept(cells, options, console, *, hosts, show):
            assert options.tracking == "none"
            assert all((cell.protocol, cell.steps, cell.breakdown_s) == (Protocol.steps, 1, 0) for cell in cells)
            records = [make_record(cell, status=ends(cell.batch_size), reason="told [/so]") for cell in cells]
            return SweepResult(project / "runs" / (options.out or "runs/new").split("/")[1], records)

        monkeypatch.setattr(largest_batch.run, "run", swept)
        console = Console(file=io.StringIO(), width=200)
        status = largest_batch.find(make_cell(batch_size=8), OPTIONS, console, None)
        return status, console.file.getvalue()

    return use


def test_what_fits_is_told_with_what_does_not_after_the_range(tries):
    status, text = tries(lambda batch: Status.ok if batch <= 50 else Status.oom)
    assert status == 0
    first, records, last = text.splitlines()
    assert re.fullmatch(r"Trying batches of 8 to 64 samples in the [0-9.]+ GB of memory that cpu has ...", first)
    assert records == "Records of the tries: runs/new"
    assert last == "The largest batch that fits: 48; 52 does not (told [/so])."


def test_the_search_ends_at_the_whole_data_set(tries):
    status, text = tries(lambda batch: Status.ok)
    assert status == 0
    assert "The largest batch that fits: 64; more than 64 was not tried." in text


def test_another_end_tells_what_was_seen_to_fit(tries):
    status, text = tries(lambda batch: Status.ok if batch <= 50 else Status.skipped)
    assert status == 1
    assert "The search ended: mlp-cpu-fp32-b64-infer" in text
    assert "skipped: told [/so]" in text
    assert "The largest batch that was seen to fit: 32." in text


def test_a_start_beyond_the_search_is_told(project):
    with pytest.raises(UserError, match="batch_size=65: the search starts there and tries at most 64"):
        largest_batch.find(make_cell(batch_size=65), OPTIONS, Console(file=io.StringIO()), None)


def test_a_try_is_a_process_of_one_host_that_takes_the_memory_that_is_told(project):
    console = Console(file=io.StringIO(), width=200)
    with Hosts(faulty_host) as hosts:
        assert largest_batch.find(make_cell("tell peak", batch_size=32), OPTIONS, console, hosts) == 0
        assert len(hosts._hosts) == 1
    assert "The largest batch that fits: 64, which takes 1.5 GB; more" in console.file.getvalue()
    assert len(list((project / "runs").glob("*/*-*.json"))) == 2
