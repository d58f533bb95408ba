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


@pytest.mark.parametrize("text", ["", "train: {lr: 0.1}\n", "a:\n  suites: {}\n"])
def test_another_programs_params_file_is_passed_over(here, text, monkeypatch):
    (here / "params.yaml").write_text(text)
    assert workplace() == Workplace.outside(here)
    hint = f"{here} and the folders above it have no params.yaml with suites: type `accelbench init`"
    with pytest.raises(UserError, match=f"^{hint}$"):
        pipelines_place()
    (here / "ours" / "theirs").mkdir(parents=True)
    (here / "ours/params.yaml").write_text(OURS)
    (here / "ours/theirs/params.yaml").write_text(text)
    monkeypatch.chdir(here / "ours/theirs")
    assert workplace().project == here / "ours"


def test_a_project_has_its_data_and_outside_of_one_data_is_shared_and_the_rest_is_here(here, monkeypatch):
    place = workplace()
    assert (place.root, place.store, place.project) == (here, here, None)
    assert (place.cache, place.data) == (here / "cache/accelbench", here / "cache/accelbench/data")
    assert (place.conf / "model" / "mlp.yaml").exists()
    (here / "params.yaml").write_text(OURS)
    assert (workplace().store, workplace().cache, workplace().data) == (here, here, here / "data")
    monkeypatch.setenv("DVC_ROOT", str(here / "main"))  # what outlives an experiment belongs to the main checkout
    assert (workplace().store, workplace().cache, workplace().data) == (here / "main", here / "main", here / "data")
    (here / "params.yaml").unlink()
    assert workplace().store == here


def test_a_user_without_a_name_or_a_home_gets_both_and_a_terminal_a_width(monkeypatch):
    for name in ("HOME", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", Mock(side_effect=KeyError))
    monkeypatch.setenv("COLUMNS", "0")
    mend_environment()
    assert (getpass.getuser(), Path.home()) == (f"user{os.getuid()}", Path("/"))
    assert "COLUMNS" not in os.environ
