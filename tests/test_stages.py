import subprocess
import sys

import pytest

from accelbench import pipeline, stages
from accelbench.errors import UserError
from test_architecture import HEAVY


@pytest.fixture
def measured(monkeypatch):
    """What the stage measured itself; it ends with no parent of the tests."""
    found = []
    monkeypatch.setattr(stages, "end_with_parent", lambda: None)
    monkeypatch.setattr(pipeline, "run_suite", lambda console, name: found.append(name))
    return found


def test_a_stage_measures_what_make_repro_has_not(monkeypatch, measured):
    assert stages.main(["run_suite", "mine"]) == 0
    monkeypatch.setenv(stages.DONE, "mine confirm")
    assert stages.main(["run_suite", "mine"]) == stages.main(["confirm"]) == 0
    assert stages.main(["run_suite", "other"]) == 0
    assert measured == ["mine", "other"]


def test_a_mistake_of_the_user_is_named(measured, monkeypatch, capsys):
    def refuse(console):
        raise UserError("this can't be measured")

    monkeypatch.setattr(pipeline, "confirm", refuse)
    assert stages.main(["confirm"]) == 2
    assert capsys.readouterr().err == "error: this can't be measured\n"


def test_stages_that_prepare_import_nothing_that_measures():
    code = "import sys, accelbench.stages; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    rooms = ("engines", "measuring", "isolation", "sweep", "grid", "report", "pipeline")
    assert not {*HEAVY, *(f"accelbench.{room}" for room in rooms)} & set(loaded)
