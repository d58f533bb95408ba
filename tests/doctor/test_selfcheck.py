"""The selfcheck itself: real processes, and a clock that ends it early."""

import io

import pytest
from rich.console import Console

from accelbench.cli import main
from accelbench.doctor import selfcheck as module
from accelbench.doctor.selfcheck import selfcheck
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
def test_a_selfcheck_finds_what_was_built_in(project, hosts):
    console = printed()
    assert selfcheck(240.0, console, hosts) == 0  # beside other tests, a process takes three times as long
    text = console.file.getvalue()
    assert "processes of each to be told apart 4 times in 5" in " ".join(text.split())
    found = read_selfcheck(workplace().cache, fingerprint()["machine"])
    for cell in found.cells.values():
        assert cell.measured.low - 0.03 < module.SLOWDOWN < cell.measured.high + 0.03
        assert cell.num_rounds >= 10
