"""What comes before a sweep: the data set, and the search for misspelt names."""

import io

import numpy as np
import pytest
from rich.console import Console

from accelbench import lock
from accelbench.cli import main
from accelbench.data.arrays import read_manifest
from accelbench.project import Workplace
from accelbench.schema.cell import DataSpec
from accelbench.sweep.session import prepare_missing

# The data set

PARAMS = "data: {random: {}, mnist: {source: /nowhere}}\n"


def said(root, name, **settings):
    (root / "params.yaml").write_text(PARAMS)
    out = io.StringIO()
    prepare_missing(Workplace.of_project(root), DataSpec(name=name, **settings), Console(file=out))
    return out.getvalue()


def test_a_missing_set_is_prepared_once_and_a_line_says_so_but_for_random_images(tmp_path):
    np.savez(tmp_path / "mine.npz", images=np.zeros((40, 8, 8), np.uint8), labels=np.arange(40) % 2)
    arrays = {"path": str(tmp_path / "mine.npz")}
    assert said(tmp_path, "arrays", **arrays).startswith(f"Preparing {tmp_path}/data/arrays")
    assert said(tmp_path, "arrays", **arrays) == ""
    assert said(tmp_path, "random") == ""
    assert read_manifest(tmp_path / "data" / "random").name == "random"
    assert not (tmp_path / "data" / "random").exists()


@pytest.mark.fault
@pytest.mark.parametrize("words", ["", "-m seed=0,1"])
def test_a_typo_is_told_while_another_measures(words, here, monkeypatch, capsys):
    """A typo cost whoever waited for the machine's lock a minute."""
    monkeypatch.setattr(lock, "_holder", lambda client: pytest.fail("it waits for the lock"))
    with lock.hold_measuring(pytest.fail):
        assert main([*words.split(), "model=custom", "model.target=foo.Bar", "mode=infer"]) == 2
    assert "foo" in capsys.readouterr().err.partition("model.target=foo.Bar: ")[2]
