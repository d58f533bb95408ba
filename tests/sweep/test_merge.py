"""Records of several folders in one, as `accelbench merge` brings them together."""

import dataclasses
from pathlib import Path

import pytest

from accelbench.cli import main
from accelbench.errors import UserError
from accelbench.report.read import read
from accelbench.schema import record
from accelbench.schema.cell import ModelSpec
from accelbench.sweep.merge import merge
from fakes import make_cell, make_record
from fakes import write_sweep as sweep

CNN, MLP = (make_record(make_cell(model=ModelSpec(name=name))) for name in ("cnn", "mlp"))


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def said(done):
    return done.num_new, done.num_same, done.problems


def test_records_of_two_machines_stand_in_one_plan_and_merging_again_changes_nothing(here):
    sweep(here / "a/nets", CNN, MLP)
    sweep(here / "b/nets", dataclasses.replace(CNN, identity="1" * 64))
    assert said(merge(["a", "b"], here / "all")) == (3, 0, [])
    found = read(here / "all/nets")
    assert [each.cell.model.name for each in found.processes] == ["cnn", "mlp", "cnn"]
    assert (found.title, found.study, found.profile) == ("Networks", "001", "quick")
    before = contents(here / "all")
    assert said(merge(["b", "a"], here / "all")) == (0, 3, [])
    # A cell that was measured twice stays as it was, and is named.
    sweep(here / "c/nets", dataclasses.replace(CNN, wall_s=9.0))
    record.write(dataclasses.replace(CNN, wall_s=8.0), here / "a/nets")  # no link to it was left
    (conflict,) = merge(["c"], here / "all").problems
    assert conflict.startswith(f"all/nets/{CNN.name}.json: c has another measurement of this cell")
    assert main(["merge", "c", "--into", "all"]) == 1
    assert contents(here / "all") == before
    (plan := here / "all/nets/plan.json").write_text("{")
    with pytest.raises(UserError, match="not a readable plan"):
        merge(["a"], here / "all")
    assert plan.read_text() == "{"


@pytest.mark.parametrize("damage", [lambda path: path.symlink_to("lost"), Path.mkdir])
def test_a_record_that_cant_be_copied_is_named_and_costs_only_itself(here, damage):
    (path := sweep(here / "a/nets", CNN, MLP) / f"{MLP.name}.json").unlink()
    damage(path)
    done = merge(["a"], here / "all")
    assert said(done) == (1, 0, done.problems)
    (problem,) = done.problems
    assert problem.startswith(f"all/nets/{MLP.name}.json: not a copy of a/nets/{MLP.name}.json (")
    assert len(read(here / "all/nets").processes) == 2  # the plan has both


@pytest.mark.parametrize("ending", [".safetensors", ".requests.npy"])
def test_files_beside_a_record_go_with_it(here, ending):
    for name, wall_s in (("a", 1.0), ("b", 9.0)):
        sweep(here / name / "nets", dataclasses.replace(CNN, wall_s=wall_s))
    (here / "b/nets" / f"{CNN.name}{ending}").touch()
    for sources, into, num in ((["a", "b"], "all", 0), (["b"], "other", 1)):
        merge(sources, here / into)
        assert len(list((here / into).rglob(f"*{ending}"))) == num


@pytest.mark.parametrize(
    ("source", "into", "message"),
    [
        *(("results", into, "or lies in it") for into in ("results/merged", "results", ".")),
        *(("nowhere", "all", "no such folder"), ("empty", "all", "holds no records")),
    ],
)
def test_folders_that_lie_in_each_other_and_what_holds_no_records_are_refused(source, into, message, here):
    sweep(here / "results/nets", CNN)
    (here / "empty").mkdir()
    with pytest.raises(UserError, match=message):
        merge([source], here / into)
