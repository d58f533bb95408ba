import pytest

from accelbench.errors import UserError
from accelbench.schema.cell import Precision, Protocol
from accelbench.sweep import interleaved
from fakes import make_cell, make_options

OPTIONS, MINE = make_options(out=None), make_options(out="runs/mine")


def comparing(folder, num=None, options=OPTIONS):
    return interleaved.plan_runs((make_cell(), options), (make_cell(), options), num, folder)


def test_each_round_has_both_cells_once_in_an_order_drawn_at_random():
    drawn = interleaved.shuffled_runs(make_cell(batch_size=8), make_cell(batch_size=16), 50, seed=1)
    assert sorted(cell.repeat for cell in drawn.cells) == list(range(100))
    rounds = list(zip(drawn.is_second[::2], drawn.is_second[1::2], strict=True))
    assert set(rounds) == {(False, True), (True, False)}
    assert 10 < sum(a for a, _ in rounds) < 40
    assert [cell.batch_size for cell in drawn.cells] == [8] * 50 + [16] * 50
    assert all(drawn.is_second[cell.repeat] == (cell.batch_size == 16) for cell in drawn.cells)


def test_a_comparison_has_a_folder_of_its_own_and_five_rounds_and_one_that_holds_records_is_refused(tmp_path):
    drawn, options = comparing(tmp_path)
    assert len(drawn.cells) == 10
    assert options.out.startswith("runs/")
    assert options.out.endswith("-compare")
    (tmp_path / "runs/mine").mkdir(parents=True)
    drawn, options = comparing(tmp_path, 2, MINE)
    assert (len(drawn.cells), options.out) == (4, "runs/mine")
    (tmp_path / f"runs/mine/{drawn.cells[0].id}-01234567.json").touch()
    longer, _ = comparing(tmp_path, options=MINE)
    assert longer.is_second[:4] == drawn.is_second
    others = {tuple(comparing(tmp_path, options=make_options(out=f"runs/{i}"))[0].is_second) for i in range(20)}
    assert len(others) > 5  # each folder has an order of its own
    sides = [(make_cell(), make_options(words_of={name: name})) for name in "AB"]
    assert interleaved.plan_runs(*sides, 2, tmp_path)[1].words_of == {"A": "A", "B": "B"}
    (tmp_path / "runs/mine/0123456789ab-01234567.json").touch()
    with pytest.raises(UserError, match="out=runs/mine: has records of other cells"):
        comparing(tmp_path, options=MINE)


def test_of_each_seed_all_settings_run_before_those_of_the_next_one():
    cells = [make_cell(protocol=Protocol.target, precision=word) for word in (Precision.fp32, Precision.bf16)]
    planned = [(each.precision, each.seed) for each in interleaved.with_seeds(cells, 3)]
    assert planned == [(word, seed) for seed in range(3) for word in ("fp32", "bf16")]
