"""Sweeps whose cells run in several environments, each from a host of its own."""

import json
import os

import pytest

from accelbench.answers.cells import Process, cells_of
from accelbench.answers.jobs import jobs
from accelbench.schema.cell import Status
from environments import make_environment
from fakes import make_cell


@pytest.fixture(scope="module")
def second(tmp_path_factory):
    """Its interpreter prints as it starts."""
    made = make_environment(tmp_path_factory.mktemp("new") / "second", timm="99.0")
    (site,) = made.glob("lib/python*/site-packages")
    (site / "prints.pth").write_text("import sys; print('Hello', flush=True)\n")
    return str(made)


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    return str(make_environment(tmp_path_factory.mktemp("new") / "empty"))


def test_each_cell_runs_in_its_environment_whose_versions_are_in_its_identity_and_in_the_answer(
    swept, shared, project, second, empty
):
    cells = [make_cell("tell environment", python=python) for python in (None, second, empty)]
    result, _ = swept(cells)
    home, other, skipped = result.records
    assert [each.status for each in result.records] == [Status.ok, Status.ok, Status.skipped]
    seen = json.loads((project / "data/mnist/environment.json").read_text())
    library = os.path.dirname(os.__file__)
    ours, *users = (path for path in seen["PYTHONPATH"].split(os.pathsep) if not path.startswith(library))
    assert (seen["sys.prefix"], os.listdir(ours)) == (second, ["accelbench"])
    assert not any("site-packages" in folder for folder in users)
    assert [key[0] for key in shared._hosts] == [None, second]
    assert other.environment["versions"] == {**home.environment["versions"], "timm": "99.0"}
    assert len({each.identity for each in result.records}) == 3
    needs = "msgspec, numpy, nvidia-ml-py, torch"
    assert skipped.reason.startswith(f"python={empty}: {needs} not installed there: {empty}/bin/python -m pip install")
    assert other.label == f"{make_cell().label}-second"
    (group,) = jobs(cells_of(map(Process.of, result.records)))
    assert sorted(map(group.text, group.cells)) == sorted(
        f"PyTorch fp32 b32, {name}" for name in ("accelbench's own", "second")
    )
