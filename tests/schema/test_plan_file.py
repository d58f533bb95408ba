from accelbench.schema import plan_file, record
from accelbench.schema.plan_file import WantedCell
from fakes import make_cell, refuse_listing
from schema.test_record import make_record

SIZES = (8, 16, 32)
RECORDS = [
    make_record(cell=make_cell(batch_size=size), started_at=f"2026-11-{day}T09:00:00+00:00")
    for size, day in zip(SIZES, (20, 22, 21), strict=True)
]
WANTED = [WantedCell(one.cell, one.name) for one in RECORDS]


def plan_of(cells):
    return plan_file.PlanFile(suite="s", title="", study=None, profile=None, cells=list(cells))


def test_a_plan_is_extended_by_new_cells_in_their_order_and_each_is_there_once():
    assert plan_file.joined(WANTED[:2], [WANTED[2], WANTED[0]]) == WANTED
    assert plan_file.joined([], WANTED) == WANTED


def test_a_cell_that_was_measured_anew_keeps_its_place_with_its_new_record():
    again = WantedCell(WANTED[0].cell, f"{WANTED[0].cell.id}-77777777")
    assert plan_file.joined(WANTED, [again]) == [again, *WANTED[1:]]


def test_without_a_plan_all_records_are_wanted_in_the_order_in_which_they_were_measured(tmp_path):
    for one in RECORDS:
        record.write(one, tmp_path)
    (tmp_path / "000000000000-00000000.json").write_text("{")
    found = plan_file.plan_of_records(tmp_path)
    assert [wanted.cell.batch_size for wanted in found.cells] == [8, 32, 16]
    assert (found.suite, found.title, found.study) == ("test", tmp_path.name, None)
    assert plan_file.cells_in(tmp_path) == found.cells
    assert plan_file.unplanned(found, tmp_path) == ["000000000000-00000000"]


def test_the_records_that_a_plan_does_not_name_are_known(tmp_path):
    for one in RECORDS:
        record.write(one, tmp_path)
    plan_file.write_plan(plan_of(WANTED[:2]), tmp_path)
    assert plan_file.cells_in(tmp_path) == WANTED[:2]
    assert plan_file.unplanned(plan_file.read_plan(tmp_path), tmp_path) == [RECORDS[2].name]


def test_the_label_of_a_cell_is_kept(tmp_path):
    wanted = WantedCell(WANTED[0].cell, WANTED[0].record_name, "mlp, the wide one")
    plan_file.write_plan(plan_of([wanted]), tmp_path)
    assert plan_file.read_plan(tmp_path).cells == [wanted]


def test_the_folders_of_sweeps_are_found_at_any_depth_and_once(tmp_path):
    for name in ("b", "a/deep/er", "a"):
        record.write(RECORDS[0], tmp_path / name)
    plan_file.write_plan(plan_of(WANTED), tmp_path / "planned")
    record.write(RECORDS[0], tmp_path / ".hidden")
    (tmp_path / "a" / "circle").symlink_to(tmp_path)
    (tmp_path / "nothing").mkdir()
    found = plan_file.sweep_folders(tmp_path)
    assert found == {tmp_path / name: None for name in ("a", "a/deep/er", "b", "planned")}
    assert list(found) == sorted(found)
    assert plan_file.sweep_folders(tmp_path / "gone") == {}


def test_a_link_to_a_folder_is_followed(tmp_path):
    record.write(RECORDS[0], tmp_path / "elsewhere")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "elsewhere")
    assert plan_file.sweep_folders(tmp_path / "runs") == {tmp_path / "runs" / "link": None}


def test_a_folder_that_can_not_be_listed_has_a_reason(tmp_path, monkeypatch):
    record.write(RECORDS[0], tmp_path / "good")
    record.write(RECORDS[0], tmp_path / "bad")
    refuse_listing(monkeypatch, tmp_path / "bad")
    found = plan_file.sweep_folders(tmp_path)
    assert found[tmp_path / "good"] is None
    assert str(found[tmp_path / "bad"]) == f"{tmp_path}/bad: Permission denied"
    plan_file.write_plan(plan_of(WANTED), tmp_path / "bad")
    assert plan_file.sweep_folders(tmp_path)[tmp_path / "bad"] is None  # the plan says what is in it
