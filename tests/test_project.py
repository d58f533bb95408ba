import getpass
import os
import pwd
from pathlib import Path
from unittest.mock import Mock

import pytest

from accelbench.errors import UserError
from accelbench.project import Workplace, mend_environment, pipelines_place, workplace

OURS = "profile: quick\nsuites:\n  nets: {data: mnist}\n"


@pytest.mark.parametrize("text", [OURS, "'suites':\n\n# a comment\n  nets: {}\n", "suites: # a comment\n  nets: ["])
def test_a_params_file_with_suites_makes_a_project(here, text, monkeypatch):
    (here / "params.yaml").write_text(text)
    (here / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(here / "a" / "b")
    assert workplace() == pipelines_place() == Workplace.of_project(here)
    assert workplace().data == here / "data"


@pytest.mark.parametrize("text", ["", "train: {lr: 0.1}\n", "a:\n  suites: {}\n"])
def test_another_programs_params_file_is_passed_over(here, text, monkeypatch):
    (here / "params.yaml").write_text(text)
    assert workplace() == Workplace.outside(here)
    with pytest.raises(UserError) as raised:
        pipelines_place()
    assert str(raised.value) == (
        f"{here} and the folders above it have no params.yaml with suites: type `accelbench init`"
    )
    above, below = here / "ours", here / "ours" / "theirs"
    below.mkdir(parents=True)
    (above / "params.yaml").write_text(OURS)
    (below / "params.yaml").write_text(text)
    monkeypatch.chdir(below)
    assert workplace().project == above


def test_outside_of_a_project_data_is_shared_and_the_rest_is_here(here):
    place = workplace()
    assert (place.root, place.store, place.project) == (here, here, None)
    assert place.cache == here / "cache" / "accelbench"
    assert place.data == place.cache / "data"
    assert place.records == "runs"
    assert (place.conf / "model" / "mlp.yaml").exists()


def test_a_user_without_a_name_or_a_home_gets_both_and_a_terminal_a_width(monkeypatch):
    for name in ("HOME", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", Mock(side_effect=KeyError))
    monkeypatch.setenv("COLUMNS", "0")
    mend_environment()
    assert (getpass.getuser(), Path.home()) == (f"user{os.getuid()}", Path("/"))
    assert "COLUMNS" not in os.environ


def test_what_outlives_an_experiment_belongs_to_the_main_checkout(here, monkeypatch):
    (here / "params.yaml").write_text(OURS)
    assert workplace().store == workplace().cache == here
    monkeypatch.setenv("DVC_ROOT", str(here / "main"))
    place = workplace()
    assert place.store == place.cache == here / "main"
    assert place.data == here / "data"
    (here / "params.yaml").unlink()
    assert workplace().store == here
