"""The selfcheck itself: real processes, and a clock that ends it early."""

import io
import re

import numpy as np
import pytest
from rich.console import Console

from accelbench.cli import main
from accelbench.compare.record_sets import ComparedProcess
from accelbench.doctor.selfcheck import detectable, selfcheck
from accelbench.errors import UserError
from accelbench.schema.vocab import Status
from fakes import make_cell


@pytest.mark.parametrize("budget", ["soon", "0s", "3h"])
def test_a_time_that_is_none_is_refused(budget, project, capsys):
    assert main(["selfcheck", f"--budget={budget}"]) == 2
    assert f"--budget {budget}: should be" in capsys.readouterr().err


@pytest.mark.slow
def test_a_cell_differs_from_itself_by_little(project, hosts):
    console = Console(file=io.StringIO(), width=200)
    assert selfcheck(600.0, console, hosts) == 0  # beside other tests, a process takes three times as long
    low, high = map(float, re.search(r"differ by (\S+) to (\S+) %", console.file.getvalue()).groups())
    assert low < 5
    assert high > -5


def sides(noise, num=10):
    """Two sides of one cell, whose processes differ by `noise`."""
    draw = np.random.default_rng(0)
    fields = {"cell": make_cell(), "outcome": Status.ok, "environment": {}, "data": None, "was_beside_others": False}
    rates = np.exp(draw.normal(5, noise, (2, num)))
    return [[ComparedProcess(rates=[rate], started_at="", **fields) for rate in side] for side in rates]


def test_the_difference_that_is_found_shrinks_with_processes_and_grows_with_noise():
    texts = (detectable(*sides(noise)) for noise in (0.02, 0.05))
    small, large = ([float(share) for share in re.findall(r"([0-9.]+) % with", text)] for text in texts)
    assert large == sorted(large, reverse=True)
    assert all(low < high for low, high in zip(small, large, strict=True))
    quiet = "slower by 2.0 % with 5 processes, 2.0 % with 10 processes of each setting."
    assert quiet in detectable(*sides(0.001))  # a smaller difference counts as none
    assert "% with 7 processes of each setting." in detectable(*sides(0.02, num=7))
    luckily_quiet = [sorted(side, key=lambda process: abs(process.rates[0] - 148)) for side in sides(0.05)]
    few, many = re.findall(r"([0-9.]+) % with", detectable(*luckily_quiet))
    assert float(few) > float(many)
    too_few = "--budget: 4 processes of a copy were measured, but 5 are needed: set a longer time"
    with pytest.raises(UserError, match=f"^{too_few}$"):
        detectable(*sides(0.02, num=4))
