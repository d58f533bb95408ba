"""Each call of a sweep on its files, pipes and locks fails once, as do some of the calls that import a module.

The calls are those that a traced sweep makes. After each failure no record is lost or false, and the next sweep is
complete. FAULTS_SEED chooses the calls; else they are others each time. FAULTS_NUM is how many: of a sweep without
tracking, and of those on MLflow's store; 0 for all.
"""

import os
import random
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from accelbench.schema.vocab import Status
from fakes import make_project
from faults import points
from faults.beds import OUT, SEED, Bed, Sweeper, is_true, wrong_runs
from faults.points import Point

SIZES = (8, 16, 32, 64)
KNOWN = SIZES[:1]  # have their record from an earlier sweep
NUM, NUM_OF_STORE = map(int, os.environ.get("FAULTS_NUM", "280,40").split(","))
OUTSIDE = 0.15  # share of calls outside of the project and the temporary folder
NUM_SWEEPERS = 2  # side by side
MISSED = "not reached"

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return points.compiled(tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="module")
def template(library, tmp_path_factory):
    """A project with the records of `KNOWN`, and a store that has them."""
    project = make_project(tmp_path_factory.mktemp("made"))
    with Sweeper("mlflow", LD_PRELOAD=str(library)) as sweeper:  # a variable that is part of a record's identity
        bed = Bed(project, tmp_path_factory.mktemp("template") / "bed", sweeper, "mlflow")
        assert bed.run(KNOWN)[0] == 0
    return bed.project


def traced(bed: Bed) -> list[Point]:
    log = bed.folder / "calls"
    points.write_state(bed.state, bed.watched, log)
    code, printed = bed.run(SIZES)
    assert code == 0, printed
    return points.logged(log, bed.watched)


def chosen(found: list[Point], num: int) -> list[tuple[Point, str]]:
    """A random choice of failures; all of them, if `num` is 0."""
    inside = [(point, error) for point in found if point.call != "outside" for error in point.errors]
    outside = [(point, error) for point in found if point.call == "outside" for error in point.errors]
    if not num:
        return inside + outside
    generator, num_outside = random.Random(SEED), min(round(OUTSIDE * num), len(outside))
    return generator.sample(inside, min(num - num_outside, len(inside))) + generator.sample(outside, num_outside)


@pytest.fixture
def sweepers(library):
    with ExitStack() as stack:
        yield [stack.enter_context(Sweeper("mlflow", LD_PRELOAD=str(library))) for _ in range(NUM_SWEEPERS)]


def is_on_store(point: Point) -> bool:
    return "/mlflow." in point.target or "/mlartifacts" in point.target


@pytest.mark.parametrize(
    ("tracking", "num", "counts"),
    [("none", NUM, lambda point: True), ("mlflow", NUM_OF_STORE, is_on_store)],
    ids=["any", "on the store"],
)
def test_after_any_call_fails_no_record_is_lost_or_false_and_what_comes_next_is_complete(
    template, sweepers, tmp_path, capsys, tracking, num, counts
):
    """What comes next is a sweep, and a sync if the sweep tracks."""
    points_of_all = traced(Bed(template, tmp_path / "traced", sweepers[0], tracking))
    failures = chosen(list(filter(counts, points_of_all)), num)

    def fail(place: int) -> list[tuple[Point, str, list[str]]]:
        """Every second one, in one of two sweepers."""
        found = []
        for number, (point, error) in enumerate(failures):
            if number % NUM_SWEEPERS == place:
                bed = Bed(template, tmp_path / str(number), sweepers[place], tracking)
                found.append((point, error, list(problems_after(bed, point, error))))
                shutil.rmtree(bed.folder)
        return found

    with ThreadPoolExecutor(NUM_SWEEPERS) as pool:
        tried = [each for found in pool.map(fail, range(NUM_SWEEPERS)) for each in found]
    num_missed = sum(problems == [MISSED] for _, _, problems in tried)
    with capsys.disabled():
        print(f"\nFAULTS_SEED={SEED}: {len(tried) - num_missed} calls failed, {num_missed} were not reached")
    wrong = [f"{point}: {error}: {line}" for point, error, lines in tried for line in lines if line != MISSED]
    assert wrong == []
    assert num_missed < len(failures) / 20


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
        yield f"it cost {len(failed)} cells: {printed}"
    yield from (f"a false record: {record.status}, {record.reason}" for record in after.values() if not is_true(record))
    points.write_state(bed.state, bed.watched)
    bed.let_an_hour_pass()
    code, printed = bed.run(SIZES)
    last = bed.records()
    if code != 0 or sorted(last) != sorted(SIZES) or any(record.status != Status.ok for record in last.values()):
        yield f"the next sweep is not complete: exit code {code}: {printed}"
    if any(last.get(size) != record for size, record in after.items() if size not in failed):
        yield "the next sweep changed a record"
    yield from (f"a false record of the next sweep: {record}" for record in last.values() if not is_true(record))
    yield from (f"left behind: {name}" for name in bed.left_behind())
    if bed.tracking == "mlflow":
        code, printed = bed.run([], words=["sync"])
        if code != 0:
            yield f"the next sync: exit code {code}: {printed}"
        yield from (f"runs: {row}" for row in wrong_runs(bed, OUT))
