import pytest

from accelbench.cli import main
from accelbench.schema.cell import Precision, Protocol
from accelbench.sweep.interleaved import with_seeds
from fakes import make_cell


def test_of_each_seed_all_settings_run_before_those_of_the_next_one():
    cells = [make_cell(protocol=Protocol.target, precision=word) for word in (Precision.fp32, Precision.bf16)]
    planned = [(each.precision, each.seed) for each in with_seeds(cells, 3)]
    assert planned == [(word, seed) for seed in range(3) for word in ("fp32", "bf16")]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("best --target 97 model=mlp", "--target 97: should be an accuracy above 0 and at most 1, such as 0.97"),
        ("best --target 0.9 --seeds 0 model=mlp", "--seeds: should be at least 1"),
        (f"best --target 0.9 --seeds {'9' * 4300} model=mlp", "--seeds: makes more than 10,000 cells: "),
        ("best --seeds 6 runs/mine", "--seeds: needs --target"),
        ("best --target 0.9 --serve --latency-ms 5", "--serve: can't be used with --target"),
        ("best --target 0.9 runs/mine", "runs/mine: not readable as name=value"),
        ("best --target 0.9 model=mlp repeats=2", "repeats: is decided by --target and --seeds, so leave it out"),
        ("compare --target 0.9 a b", "--target: needs --run"),
        ("compare --run --target 0.9 --margin 3% model=mlp model=cnn", "--margin: can't be used with --target"),
    ],
)
def test_what_does_not_go_with_a_target_is_refused(words, told, project, capsys):
    assert main(words.split()) == 2
    assert told in capsys.readouterr().err


def test_no_cell_begins_once_the_budget_is_used_up_and_the_sweep_goes_on_from_there(swept):
    cells = [make_cell(batch_size=size, seed=seed) for size in (8, 16) for seed in range(3)]
    result, text = swept(cells, ends_after_s=1e-9)
    assert not result.records
    assert "2 cells (6 runs) to measure: " in text
    assert "The budget is used up: 0 of 6 cells have their record." in text
    _, text = swept(cells[::3], ends_after_s=1e-9)
    assert "2 cells to measure: " in text
    assert len(swept(cells[::3])[0].records) == 2
