"""What comes before a sweep: the data set, and the search for misspelt names."""

import io
import re

import numpy as np
import pytest
from rich.console import Console

from accelbench import lock
from accelbench.cli import main
from accelbench.data.arrays import read_manifest
from accelbench.project import Workplace
from accelbench.schema.cell import DataSpec
from accelbench.sweep.session import prepare_missing


def test_a_missing_set_is_prepared_once_and_a_line_says_so_but_for_random_images(tmp_path):
    (tmp_path / "params.yaml").write_text("data: {random: {}}\n")
    np.savez(tmp_path / "mine.npz", images=np.zeros((40, 8, 8), np.uint8), labels=np.arange(40) % 2)
    arrays = DataSpec(name="arrays", path=str(tmp_path / "mine.npz"))
    out = io.StringIO()
    for spec in (arrays, arrays, DataSpec(name="random")):
        prepare_missing(Workplace.of_project(tmp_path), spec, Console(file=out, width=500))
    assert re.fullmatch(rf"Preparing {tmp_path}/data/arrays.*\n", out.getvalue())
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
