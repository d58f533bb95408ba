from dataclasses import replace
from pathlib import Path

import pytest

from accelbench.compare.confidence import Confidence, Sureness, against_fastest, behind, confidence
from accelbench.report import read
from accelbench.schema.conditions import SystemSeries


@pytest.fixture
def sides(tmp_path: Path, maker):
    """Processes of two cells, `num` each, in turns or one side after the other, at these speeds."""

    def sides(one: float, other: float, num: int = 1, in_turns: bool = True):
        records = []
        for i in range(num):
            for side, (rate, precision) in enumerate(((one, "fp32"), (other, "bf16"))):
                cell = maker.cell(precision=precision, repeat=i)
                minute = 2 * i + side if in_turns else 10 * side + i
                done = maker.ok(cell, rate * (1 + i / 1000))
                records.append(replace(done, started_at=f"2026-11-20T18:{minute:02}:00+00:00"))
        cells = read.read(maker.suite(tmp_path, records)).cells
        return [[each for each in cells if each.cell.precision == precision] for precision in ("fp32", "bf16")]

    return sides


def test_one_process_a_side_is_never_a_proof(sides) -> None:
    assert str(confidence(*sides(1000, 2000))) == str(confidence(*sides(2000, 1000))) == "likely"
    assert str(confidence(*sides(1000, 1150))) == "can't tell: two processes of one setting may differ as much"
    assert str(confidence(*sides(1000, 1010))) == "can't tell: the intervals overlap"


def disturbed(each: read.ReportedCell) -> read.ReportedCell:
    """The cell beside which other processes used most of a core."""
    busy = SystemSeries(started_boot_s=0.0, t_s=[1.0], values={"other_cpu_utilization_percent": [80.0]})
    assert each.record is not None
    assert each.record.measurement is not None
    measurement = replace(each.record.measurement, steady_boot_s=(0.5, 1.5))
    return replace(each, record=replace(each.record, system=busy, measurement=measurement))


def test_nothing_is_likely_of_cells_that_other_processes_disturbed(sides) -> None:
    one, other = sides(1000, 2000)
    found = confidence(one, list(map(disturbed, other)))
    assert str(found) == "can't tell: other programs used the CPU meanwhile"


def test_nothing_is_sure_if_half_of_the_processes_were_disturbed(sides) -> None:
    one, other = sides(1000, 2000, num=5)
    few, many = ([*map(disturbed, one[:num]), *one[num:]] for num in (2, 3))
    assert str(confidence(few, other)).startswith("sure: faster, +99.")
    assert confidence(many, other).sureness == Sureness.cant_tell


def test_five_in_turns_tell(sides) -> None:
    assert str(confidence(*sides(1000, 2000, num=5))).startswith("sure: faster, +99.")
    assert str(confidence(*sides(2000, 1000, num=5))).startswith("sure: slower, -50.")
    assert str(confidence(*sides(1000, 1001, num=5))).startswith("sure: same, ")


def test_five_after_five_do_not(sides) -> None:
    assert str(confidence(*sides(1000, 2000, num=5, in_turns=False))) == "likely"


def test_without_intervals_nothing_can_be_told(tmp_path: Path, maker) -> None:
    blocks = maker.measurement(maker.cell(), 1).blocks[:2]
    records = [maker.ok(maker.cell(precision=precision), 1, blocks=blocks) for precision in ("fp32", "bf16")]
    one, other = read.read(maker.suite(tmp_path, records)).cells
    assert str(confidence([one], [other])) == "can't tell: too few blocks for an interval"


def test_nothing_is_likely_that_the_processes_which_are_compared_contradict(sides) -> None:
    one, other = sides(1000, 2000)
    assert against_fastest(one, other).sureness == Sureness.likely
    assert str(against_fastest(other, one)) == "can't tell: other processes of the two say the opposite"


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.99999, "<0.1 % slower"),
        (0.999, "0.10 % slower"),
        (0.79, "21 % slower"),
        (0.5, "2.0 times as long"),
        (0.2, "5.0 times as long"),
        (None, "slower"),
    ],
)
def test_how_far_a_cell_is_behind_has_no_false_digits(share, text):
    assert behind(Confidence(Sureness.cant_tell), share) == text
