"""Each call of a sweep on its files, pipes and locks fails once, as do some of the calls that import a module.

The calls are those that a traced sweep makes. After each failure no record is lost or false, and the next sweep is
complete. FAULTS_SEED chooses the calls, and FAULTS_NUM how many; 0 for all of them.
"""

import os
import random
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from queue import Queue

import pytest

from accelbench.schema.vocab import Status
from fakes import make_project
from faults import points
from faults.beds import Bed, Sweeper, is_true
from faults.points import Point

SIZES = (8, 16, 32, 64)
KNOWN = SIZES[:1]  # have their record from an earlier sweep
SEED = int(os.environ.get("FAULTS_SEED", "1"))
NUM = int(os.environ.get("FAULTS_NUM", "320"))
OUTSIDE = 0.15  # share of calls outside of the project and the temporary folder
SWEEPERS = 2

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return points.compiled(tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="module")
def template(library, tmp_path_factory):
    """A project with the records of `KNOWN`."""
    project = make_project(tmp_path_factory.mktemp("made"))
    with Sweeper(LD_PRELOAD=str(library)) as sweeper:  # a variable that is part of a record's identity
        bed = Bed(project, tmp_path_factory.mktemp("template"), sweeper)
        assert bed.run(KNOWN)[0] == 0
    return bed.project


def traced(bed: Bed) -> list[Point]:
    log = bed.folder / "calls"
    points.write_state(bed.state, bed.watched, log)
    code, printed = bed.run(SIZES)
    assert code == 0, printed
    return points.logged(log, bed.watched)


def chosen(found: list[Point]) -> list[tuple[Point, str]]:
    """A random choice of failures."""
    inside = [(point, error) for point in found if point.call != "outside" for error in point.errors]
    outside = [(point, error) for point in found if point.call == "outside" for error in point.errors]
    print(f"seed {SEED}: {len(found)} calls, {len(inside)} failures of files, pipes and locks, {len(outside)} others")
    if not NUM:
        return inside + outside
    generator, num = random.Random(SEED), round(OUTSIDE * NUM)
    return generator.sample(inside, min(NUM - num, len(inside))) + generator.sample(outside, min(num, len(outside)))


def test_after_any_call_fails_no_record_is_lost_or_false_and_the_next_sweep_is_complete(
    library, template, tmp_path, capsys
):
    sweepers, problems = Queue(), {}

    def fail(number, point, error):
        sweeper = sweepers.get()
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            if found := list(problems_after(Bed(template, folder, sweeper), point, error)):
                problems[f"{point}: {error}"] = found
        finally:
            sweepers.put(sweeper)
            shutil.rmtree(folder)

    with Sweeper(LD_PRELOAD=str(library)) as first, Sweeper(LD_PRELOAD=str(library)) as second:
        (tmp_path / "traced").mkdir()
        with capsys.disabled():
            failures = chosen(traced(Bed(template, tmp_path / "traced", first)))
        for sweeper in (first, second):
            sweepers.put(sweeper)
        with ThreadPoolExecutor(SWEEPERS) as pool:
            list(pool.map(fail, range(len(failures)), *zip(*failures, strict=True)))
    missed = [name for name, found in problems.items() if found == [MISSED]]
    with capsys.disabled():
        print(f"{len(failures) - len(missed)} failures injected, {len(missed)} not reached")
    wrong = {name: found for name, found in problems.items() if name not in missed}
    assert not wrong, "\n".join(line for name, found in wrong.items() for line in ["", name, *found])
    assert len(missed) < len(failures) / 20


MISSED = "not reached"


def problems_after(bed: Bed, point: Point, error: str):
    """Yields what is wrong after the call at `point` failed with `error`, and after the next sweep."""
    before = bed.records()
    points.write_state(bed.state, bed.watched, fault=(point, error))
    code, printed = bed.run(SIZES)
    if not points.has_happened(bed.state):
        yield MISSED
        return
    died = point.role == "sweep" and error in ("KILL", "TORN") and point.call != "exec"
    if code not in ((-9,) if died else (0, 1, 2)) or "Traceback" in printed:
        yield f"exit code {code}: {printed}"
    yield from (f"left running: {said}" for said in bed.left_running())
    after = bed.records()
    if len(after) != len(bed.files()):
        yield "a record is not readable"
    if any(after.get(size) != record for size, record in before.items()):
        yield "the record of an earlier sweep is lost or changed"
    if code == 0 and sorted(after) != sorted(SIZES):
        yield "exit code 0 without all records"
    said = {int(size) for size in re.findall(r"-b(\d+)-infer +ok ", printed)}
    failed = {size: record for size, record in after.items() if record.status != Status.ok}
    if not said <= after.keys() - failed.keys():
        yield f"a cell is reported to be ok whose record is not: {printed}"
    if len(failed) > 1 and error != "FULL":
        yield f"it cost {len(failed)} cells"
    yield from (f"a false record: {record.status}, {record.reason}" for record in after.values() if not is_true(record))
    points.write_state(bed.state, bed.watched)
    code, printed = bed.run(SIZES)
    last = bed.records()
    if code != 0 or sorted(last) != sorted(SIZES) or any(record.status != Status.ok for record in last.values()):
        yield f"the next sweep is not complete: exit code {code}: {printed}"
    if any(last.get(size) != record for size, record in after.items() if size not in failed):
        yield "the next sweep changed a record"
    yield from (f"a false record of the next sweep: {record}" for record in last.values() if not is_true(record))
    yield from (f"left behind: {name}" for name in bed.left_behind())
