"""The selfcheck itself: real processes, and a clock that ends it early."""

import io

import numpy as np
import pytest
from rich.console import Console

from accelbench.cli import main
from accelbench.doctor.selfcheck import machine_error, selfcheck
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
def test_a_cell_differs_from_itself_by_little(project, hosts):
    console = printed()
    assert selfcheck(240.0, console, hosts) == 0  # beside other tests, a process takes three times as long
    text = console.file.getvalue()
    assert "processes of each to be told apart 4 times in 5" in " ".join(text.split())
    found = read_selfcheck(workplace().cache, fingerprint()["machine"])
    for cell in found.cells.values():
        assert cell.low < 0.05
        assert cell.high > -0.05
        assert cell.num_rounds >= 10


def test_the_difference_that_is_found_shrinks_with_processes_and_grows_with_noise():
    numbers = np.random.default_rng(0)

    def needed(noise):
        return [each.slowdown for each in machine_error(numbers.normal(5, noise, (60, 2))).detectable]

    small, large = needed(0.01), needed(0.05)
    assert large == sorted(large, reverse=True)
    assert all(low < high for low, high in zip(small, large, strict=True))
