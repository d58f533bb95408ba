import io

import numpy as np
import pytest
from rich.console import Console

from accelbench.data.manifest import read_manifest
from accelbench.errors import UserError
from accelbench.project import Workplace
from accelbench.schema.workload import DataSpec
from accelbench.sweep.context import prepare_missing

PARAMS = "data: {random: {}, mnist: {source: /nowhere}}\n"


def said(root, name, **settings):
    out = io.StringIO()
    prepare_missing(Workplace.of_project(root), DataSpec(name=name, **settings), Console(file=out))
    return out.getvalue()


def test_a_missing_set_is_prepared_once_and_a_line_says_so(tmp_path):
    (tmp_path / "params.yaml").write_text(PARAMS)
    np.savez(tmp_path / "mine.npz", images=np.zeros((40, 8, 8), np.uint8), labels=np.arange(40) % 2)
    arrays = {"path": str(tmp_path / "mine.npz")}
    assert said(tmp_path, "arrays", **arrays).startswith(f"Preparing {tmp_path}/data/arrays")
    assert said(tmp_path, "arrays", **arrays) == ""


def test_random_images_are_prepared_without_a_word(tmp_path):
    (tmp_path / "params.yaml").write_text(PARAMS)
    assert said(tmp_path, "random") == ""
    assert read_manifest(tmp_path / "data" / "random").name == "random"


def test_outside_of_a_project_a_set_has_its_own_settings_and_lies_where_the_user_says(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    place = Workplace.outside(tmp_path)
    for found in (place, place.with_data(str(tmp_path / "sets"))):
        prepare_missing(found, DataSpec(name="random"), Console(file=io.StringIO()))
    for folder in ("cache/accelbench/data", "sets"):
        assert read_manifest(tmp_path / folder / "random").name == "random"


@pytest.mark.parametrize(("name", "told"), [("mnist", "/nowhere"), ("cifar10", "Choose from: random, mnist")])
def test_a_set_that_cannot_be_prepared_is_named(name, told, tmp_path):
    (tmp_path / "params.yaml").write_text(PARAMS)
    with pytest.raises(UserError, match=told):
        said(tmp_path, name)
    assert not (tmp_path / "data" / name).exists()
