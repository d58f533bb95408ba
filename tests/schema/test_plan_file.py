import dataclasses

import pytest

from accelbench.errors import RefusedError
from accelbench.schema import plan_file, record
from accelbench.schema.cell import DataSpec, ModelSpec, Window
from accelbench.schema.plan_file import labels
from fakes import make_cell, make_record, refuse_listing, write_plan_of

RECORDS = [
    make_record(cell=make_cell(batch_size=size), started_at=f"2026-11-{day}T09:00:00+00:00")
    for size, day in ((8, 20), (16, 22), (32, 21))
]


def test_without_a_plan_all_records_are_wanted_in_the_order_in_which_they_were_measured(tmp_path):
    for one in RECORDS:
        record.write(one, tmp_path)
    (tmp_path / "000000000000-00000000.json").write_text("{")
    plan = plan_file.plan_of_records(tmp_path)
    assert [wanted.cell.batch_size for wanted in plan.cells] == [8, 32, 16]
    assert (plan.suite, plan.title, plan.study) == ("test", tmp_path.name, None)
    plan.cells[0] = dataclasses.replace(plan.cells[0], label="mlp, the wide one")
    plan_file.write_plan(plan, tmp_path)
    assert plan_file.read_plan(tmp_path) == plan


def test_the_folders_of_sweeps_are_found_at_any_depth_but_not_hidden_or_linked_ones(tmp_path, monkeypatch):
    for name in ("b", "a/deep/er", "a"):
        record.write(RECORDS[0], tmp_path / name)
    write_plan_of(tmp_path / "planned", RECORDS)
    record.write(RECORDS[0], tmp_path / ".hidden")
    (tmp_path / "a" / "circle").symlink_to(tmp_path)
    (tmp_path / "nothing").mkdir()
    assert plan_file.sweep_folders(tmp_path) == [tmp_path / name for name in ("a", "a/deep/er", "b", "planned")]
    assert plan_file.sweep_folders(tmp_path / "gone") == []
    refuse_listing(monkeypatch, tmp_path / "b")
    with pytest.raises(RefusedError, match=f"^{tmp_path}/b: Permission denied$"):
        plan_file.sweep_folders(tmp_path)


MODEL = ModelSpec(name="mlp", args={"units": 128, "dropout": 0.1})
OTHERS = {
    "units=256": {"model": dataclasses.replace(MODEL, args={"units": 256, "dropout": 0.1})},
    "learning_rate=0.5": {"model": dataclasses.replace(MODEL, learning_rate=0.5)},
    "data=cifar10": {"data": DataSpec(name="cifar10")},
    "measure_s=9": {"window": Window(measure_s=9)},
    "epochs=7": {"epochs": 7},
}


def test_cells_of_one_label_are_told_apart_by_the_settings_in_which_they_differ():
    first = make_cell(model=MODEL)
    others = [make_cell(**{"model": MODEL, **changes}) for changes in OTHERS.values()]
    for words, cell in zip(OTHERS, others, strict=True):
        assert first.label == cell.label
        names = labels([first, cell])
        assert words in names[cell.id].removeprefix(cell.label).split("-")
    cells = [first, *others, make_cell(batch_size=8), make_cell(repeat=1)]
    names = labels(cells)
    assert len(set(names.values())) == len({cell.id for cell in cells})
    assert [names[cell.id] for cell in cells[-2:]] == [cell.label for cell in cells[-2:]]
