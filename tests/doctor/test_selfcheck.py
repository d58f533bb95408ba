"""The selfcheck itself: real processes, and a clock that ends it early."""

import io
import json

import pytest
from rich.console import Console

from accelbench.cli import main
from accelbench.doctor import selfcheck as module
from accelbench.doctor.selfcheck import selfcheck
from accelbench.errors import UserError
from accelbench.grid.fingerprint import fingerprint
from accelbench.project import workplace
from accelbench.schema.selfcheck import read_selfcheck


def printed():
    return Console(file=io.StringIO(), width=80)


@pytest.mark.parametrize("budget", ["soon", "0s", "-1m", "nan", "3h"])
def test_a_time_that_is_none_is_refused(budget, project, capsys):
    assert main(["selfcheck", f"--budget={budget}"]) == 2
    assert f"--budget {budget}: should be" in capsys.readouterr().err


@pytest.mark.slow
def test_too_little_time_says_how_much_is_needed(project, hosts, monkeypatch):
    monkeypatch.setattr(module, "MIN_ROUNDS", 100)
    with pytest.raises(UserError, match=r"--budget: \d+ rounds were measured, and 100 are needed"):
        selfcheck(0.1, printed(), hosts)
    (plan,) = project.glob("selfcheck/*/plan.json")
    cells = json.loads(plan.read_text())["cells"]
    assert len(cells) == 6  # three processes of each cell: nothing is lost
    assert not (project / "selfcheck.json").exists()


@pytest.mark.slow
def test_a_selfcheck_finds_what_was_built_in(project, hosts):
    console = printed()
    assert selfcheck(240.0, console, hosts) == 0  # beside other tests, a process takes three times as long
    text = console.file.getvalue()
    assert "processes of each to be told apart 4 times in 5" in " ".join(text.split())
    found = read_selfcheck(workplace().cache, fingerprint()["machine"])
    for cell in found.cells.values():
        assert cell.measured.low - 0.03 < module.SLOWDOWN < cell.measured.high + 0.03
        assert cell.num_rounds >= 10
