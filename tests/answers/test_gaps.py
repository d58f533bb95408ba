import pytest

from accelbench.answers.cells import Word, gap
from accelbench.schema.measurement import Block


@pytest.fixture
def sides(cells, maker):
    """Two cells of `num` processes each, interleaved or one cell after the other, at these speeds."""

    def sides(one: float, other: float, num: int = 1, is_interleaved: bool = True, disturbed: int = 0):
        records = maker.interleaved({"fp32": one, "bf16": other}, num, 0.001)
        for at, record in enumerate(records):
            repeat, side = divmod(at, 2)
            done = maker.beside_others(record) if side and repeat < disturbed else record
            records[at] = done if is_interleaved else maker.at(done, 10 * side + repeat)
        return cells(records)

    return sides


def test_one_process_a_side_is_never_a_proof(sides) -> None:
    assert gap(*sides(1000, 2000)).how_sure == gap(*sides(2000, 1000)).how_sure == "likely"
    assert gap(*sides(1000, 1150)).how_sure == "can't tell: within the usual spread between runs"
    assert gap(*sides(1000, 1010)).how_sure == "can't tell: the intervals overlap"


def test_five_interleaved_processes_tell(sides) -> None:
    assert gap(*sides(2000, 1000, num=5)).how_sure.startswith("sure: 2.00 to 2.00 times")
    assert gap(*sides(1000, 2000, num=5)).how_sure.startswith("sure: 0.49")
    assert gap(*sides(1000, 1001, num=5)).how_sure.startswith("same: ")
    assert gap(*sides(1000, 2000, num=5, is_interleaved=False)).word == Word.likely


@pytest.mark.parametrize("num", [1, 2, 5])
def test_two_cells_have_one_ratio_that_is_of_the_speeds_shown_and_one_word_in_either_order(sides, num) -> None:
    one, other = sides(1000, 1300, num=num)
    there, back = gap(one, other), gap(other, one)
    assert there.ratio == pytest.approx(one.speed / other.speed)
    assert back.ratio == pytest.approx(1 / there.ratio)
    assert there.word == back.word
    assert back.text == "1.30 times as fast"


def test_nothing_is_sure_or_likely_if_other_programs_disturbed_half_of_the_processes(sides) -> None:
    assert gap(*sides(1300, 1000, num=5, disturbed=2)).word == Word.sure
    for num, disturbed in ((1, 1), (5, 3)):
        found = gap(*sides(1300, 1000, num=num, disturbed=disturbed))
        assert found.how_sure == "can't tell: other programs used the CPU meanwhile"
    assert gap(*sides(6000, 1000, disturbed=1)).how_sure == "likely"


def test_large_differences_tell_where_there_are_few_blocks(cells, maker) -> None:
    def found(fast, *, is_beside=False):
        records = []
        for word, rate in (("bf16", fast), ("fp32", 1000)):
            blocks = [Block(num_steps=1, num_samples=128, seconds=128 / rate)] * 2
            record = maker.ok(maker.cell(precision=word), rate, blocks=blocks)
            records.append(maker.beside_others(record) if is_beside else record)
        return gap(*cells(records))

    assert found(1600).how_sure == "likely"
    assert found(1600, is_beside=True).how_sure == "can't tell: other programs used the CPU meanwhile"
    assert found(1400).how_sure == "can't tell: too few blocks for an interval"
