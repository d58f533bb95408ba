"""Commands that read a folder while a sweep writes into it."""

import copy
import time

import pytest

from accelbench.schema import record
from fakes import make_project
from faults.beds import OUT, Bed, Sweeper, is_true

SIZES = range(1, 41)
pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]


def test_who_reads_while_a_sweep_measures_sees_whole_records_alone(tmp_path):
    with Sweeper() as sweeper, Sweeper() as other:
        bed = Bed(make_project(tmp_path / "made"), tmp_path / "bed", sweeper)
        reader = copy.copy(bed)
        reader.sweeper, reader.output = other, tmp_path / "read"
        reader.output.touch()
        bed.start(SIZES, fault="last")
        deadline = time.monotonic() + 60
        while not bed.files():
            assert time.monotonic() < deadline
            time.sleep(0.005)
        while len(bed.files()) < len(SIZES):
            assert time.monotonic() < deadline
            for words in (["best", OUT], ["merge", OUT, "--into", "merged"], ["report", OUT]):
                code, printed = reader.run([], words=words)
                assert "Traceback" not in printed
                # An error only where the sweep has no ok cell yet, each of which is written once before it is judged.
                assert code == 0 or "no ok cell" in printed or "not judged yet" in printed, printed
                assert "not a readable record" not in printed.replace("not a readable record (not judged yet", "")
        code, printed = bed.wait()
        assert code == 0, printed
        found = bed.records()
        assert sorted(found) == list(SIZES)
        assert [(each.status, each.reason, each.error) for each in found.values() if not is_true(each)] == []
        code, printed = reader.run([], words=["merge", OUT, "--into", "merged"])
        assert code == 0, printed
        merged = [record.read(path) for path in bed.project.glob("merged/*/*-*.json")]
        assert {each.name: each for each in merged} == {each.name: each for each in found.values()}
