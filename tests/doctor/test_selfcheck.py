"""The selfcheck itself: real processes, and a clock that ends it early."""

import io

import numpy as np
import pytest
from rich.console import Console

from accelbench.cli import main
from accelbench.compare.record_sets import ComparedProcess
from accelbench.doctor.selfcheck import machine_error, selfcheck
from accelbench.errors import UserError
from accelbench.grid.fingerprint import fingerprint
from accelbench.project import workplace
from accelbench.schema.selfcheck import read_selfcheck
from accelbench.schema.vocab import Status
from fakes import make_cell


def printed():
    return Console(file=io.StringIO(), width=80)


@pytest.mark.parametrize("budget", ["soon", "0s", "-1m", "nan", "3h"])
def test_a_time_that_is_none_is_refused(budget, project, capsys):
    assert main(["selfcheck", f"--budget={budget}"]) == 2
    assert f"--budget {budget}: should be" in capsys.readouterr().err


@pytest.mark.slow
def test_a_cell_differs_from_itself_by_little(project, hosts):
    console = printed()
    assert selfcheck(600.0, console, hosts) == 0  # beside other tests, a process takes three times as long
    text = console.file.getvalue()
    assert "processes of each setting." in " ".join(text.split())
    check = read_selfcheck(workplace().cache, fingerprint()["machine"])
    for cell in check.cells.values():
        assert cell.low < 0.05
        assert cell.high > -0.05


def sides(noise, num=10):
    """Two sides of one cell, whose processes differ by `noise`."""
    draw = np.random.default_rng(0)
    fields = {"cell": make_cell(), "outcome": Status.ok, "environment": {}, "data": None, "was_beside_others": False}
    rates = np.exp(draw.normal(5, noise, (2, num)))
    return [[ComparedProcess(rates=[rate], started_at="", **fields) for rate in side] for side in rates]


def test_the_difference_that_is_found_shrinks_with_processes_and_grows_with_noise():
    small, large = ([row.slowdown for row in machine_error(*sides(noise)).detectable] for noise in (0.02, 0.05))
    assert large == sorted(large, reverse=True)
    assert all(low < high for low, high in zip(small, large, strict=True))
    quiet = machine_error(*sides(0.001)).detectable
    assert {row.slowdown for row in quiet} == {0.02}  # a smaller difference counts as none
    too_few = "--budget: 4 processes of a copy were measured, but 5 are needed: set a longer time"
    with pytest.raises(UserError, match=f"^{too_few}$"):
        machine_error(*sides(0.02, num=4))
