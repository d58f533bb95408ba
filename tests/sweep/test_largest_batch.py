import io

import pytest
from rich.console import Console

from accelbench.errors import UserError
from accelbench.schema.record import Record
from accelbench.schema.vocab import Status
from accelbench.settings.config import SweepOptions
from accelbench.sweep import largest_batch
from accelbench.sweep.largest_batch import search
from accelbench.sweep.run import SweepResult
from fakes import make_cell


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
    assert search(lambda batch: True, 8, most=100) == (64, None)


@pytest.fixture
def tries(monkeypatch, tmp_path):
    """Runs of cells that end as the batch has them, and what was said."""

    def use(ends):
        def swept(cells, options, console):
            records = [make_record(cell, status=ends(cell.batch_size), reason="told [/so]") for cell in cells]
            return SweepResult(tmp_path / "runs" / (options.out or "runs/new").split("/")[1], records)

        monkeypatch.setattr(largest_batch.run, "run", swept)
        console = Console(file=io.StringIO(), width=200)
        options = SweepOptions(suite="s", title="", study=None, profile=None, tracking="none", out=None, retry="none")
        status = largest_batch.find(make_cell(batch_size=8), options, console, most=256)
        return status, console.file.getvalue()

    return use


def test_what_fits_is_told_with_what_does_not(tries):
    status, text = tries(lambda batch: Status.ok if batch <= 50 else Status.oom)
    assert (status, text) == (0, "The largest batch that fits: 48; 52 does not (told [/so]).\n")


def test_another_end_tells_what_was_seen_to_fit(tries):
    status, text = tries(lambda batch: Status.ok if batch <= 50 else Status.skipped)
    assert status == 1
    assert "The search ended: mlp-cpu-fp32-b64-infer: skipped: told [/so]" in text
    assert "The largest batch that was seen to fit: 32." in text


def test_a_start_beyond_the_search_is_told():
    with pytest.raises(UserError, match="batch_size=512: the search starts there and tries at most 256"):
        largest_batch.find(make_cell(batch_size=512), None, None, most=256)
