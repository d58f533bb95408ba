import json
from dataclasses import replace
from pathlib import Path

import pytest

from accelbench.answers.cells import WHY_OLDER
from accelbench.errors import UserError
from accelbench.report import read as sweeps
from accelbench.schema import record


def test_reads_what_the_plan_names_in_its_order_and_names_the_other_records(tmp_path: Path, maker) -> None:
    records = [maker.ok(maker.cell(model), 10) for model in ("cnn", "mlp")]
    folder = maker.suite(tmp_path / "results", records, [maker.cell("rnn")])
    found = sweeps.read(folder)
    assert (found.suite, found.title, found.study, found.notes) == ("nets", "Five networks on MNIST", "001", [])
    outcomes = [(cell.cell.model.name, cell.outcome) for cell in found.cells]
    assert outcomes == [("cnn", "ok"), ("mlp", "ok"), ("rnn", "not run yet")]
    assert (found.cells[2].row["model"], found.cells[2].row["samples_per_s"]) == ("rnn", None)
    orphans = [maker.ok(maker.cell(batch_size=2**i), 10) for i in range(4)]
    names = sorted(record.write(each, folder).name for each in orphans)
    (note,) = sweeps.read(folder).notes
    assert note == (
        "Not shown, because the plan of results/nets lacks them: 4 records (their cells are no longer wanted, or "
        f"their code, versions or machine changed): {', '.join(names[:3])}, ..."
    )
    results = tmp_path / "runs"  # of which sweeps are read at any depth, and told apart by name
    for place, model in (("", "rnn"), ("h100", "cnn"), ("l40s/again", "mlp")):
        maker.suite(results / place, [maker.ok(maker.cell(model, suite="s"), 10)], study=None)
    record.write(maker.ok(maker.cell(batch_size=2), 1), results)  # a stray record hides none of them
    found = {sweep.folder: sweep.cells[0].cell.model.name for sweep in sweeps.read_all(results)}
    assert found == {"h100/s": "cnn", "l40s/again/s": "mlp", "runs": "mlp", "s": "rnn"}
    assert list(found) == sorted(found)


@pytest.mark.parametrize("spoil", [{"schema_version": 99}, {"record": "../../elsewhere"}, None])
def test_a_plan_that_cannot_be_read_is_named_and_its_records_are_shown(tmp_path: Path, maker, spoil) -> None:
    records = [maker.ok(maker.cell(epochs=epochs), 10) for epochs in (1, 2, 4)]
    path = maker.suite(tmp_path / "results", records) / "plan.json"
    values = json.loads(path.read_text())
    (values if "schema_version" in (spoil or {}) else values["cells"][2]).update(spoil or {})
    path.write_text(json.dumps(values))
    begin = "results/nets/plan.json: not a readable plan ("
    if spoil is None:
        path.unlink()
        begin = "results/nets has no plan.json"
    found = sweeps.read(path.parent)
    assert {each.label for each in found.cells} == {f"mlp-cpu-fp32-b128-train-epochs={each}" for each in (1, 2, 4)}
    (note,) = found.notes
    assert note.startswith(begin)
    assert ": the cells of all its records are shown" in note


def test_a_folder_in_which_nothing_can_be_read_costs_only_itself(tmp_path: Path, maker) -> None:
    with pytest.raises(UserError, match="no sweep there.*run one first"):
        sweeps.read_all(tmp_path)
    results = tmp_path / "results"
    maker.suite(results, [maker.ok(maker.cell(suite="good"), 10)])
    (results / "bad").mkdir()
    (results / "bad/plan.json").write_text("{")
    good, bad = sweeps.read_all(results)
    assert (len(good.planned), bad.cells) == (1, [])
    assert "not a readable plan" in bad.notes[0]
    record.write(maker.ok(maker.cell(), 10), results / "bad").write_text("{")
    with pytest.raises(UserError, match=r"results/bad/.*: not a readable record"):
        sweeps.read_all(results / "bad")


def test_a_suite_has_the_figures_that_it_has_among_all_suites_and_older_code_is_named(tmp_path, maker) -> None:
    results = tmp_path / "results"
    first = maker.ok(maker.cell(), 100)
    maker.suite(results, [first])
    maker.suite(results, [maker.at(maker.ok(maker.cell(suite="more"), 300), 1)])
    confirming = [maker.at(maker.ok(maker.cell(precision="bf16", repeat=i), 900), 5 + i) for i in range(5)]
    maker.suite(tmp_path / "confirmed", confirming)
    maker.suite(results, [first, maker.ok(maker.cell(precision="bf16"), 500)])
    of_all = {(each.folder, cell.label): cell for each in sweeps.read_all(results) for cell in each.cells}
    (suite,) = sweeps.read_all(results / "nets")
    found = {("nets", cell.label): cell for cell in suite.cells}
    assert {key: cell.speed for key, cell in found.items()} == {key: of_all[key].speed for key in found}
    assert sorted(cell.speed for cell in found.values()) == pytest.approx([200, 900])
    edited = replace(first, identity="2" * 40, environment={**first.environment, "files": {"model.target": "2"}})
    maker.suite(tmp_path / "runs", [first, maker.at(edited, 9)])
    assert sweeps.read(tmp_path / "runs/nets").notes == [f"Older: 1 cell of nets, {WHY_OLDER}: no answer uses them"]
