"""What `accelbench doctor` prints, and `selfcheck`: real processes, and a clock that ends it early."""

import io
import re

import numpy as np
import pytest
from rich.console import Console

from accelbench.cli import main
from accelbench.devices import packages
from accelbench.devices.registry import look
from accelbench.doctor import detectable, selfcheck
from accelbench.errors import UserError
from accelbench.schema.cell import Device
from answers.conftest import process
from fakes import make_project


def test_the_summary_fits_a_terminal_and_all_says_what_is_skipped_and_why(here, monkeypatch, capsys):
    folder_of = packages.folder
    monkeypatch.setattr(packages, "folder", lambda name: None if name == "openvino" else folder_of(name))
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 24  # lines of a terminal; the processor alone may take several
    assert max(map(len, lines)) <= 80
    for words in ("fp16*", "int8*", "doctor --all"):
        assert any(words in line for line in lines)
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["doctor", "--all"]) == 0
    text = capsys.readouterr().out
    for report in map(look, Device):
        assert (report.name if report.present else f"not here: {report.reason}") in text
    for line in (
        r"pytorch +cpu: fp16\*, bf16, fp32",
        "openvino +no: engine=openvino: openvino is not installed",
        "cpu fp16 train +Adam's epsilon underflows in fp16 and the weights turn non-finite: use fp16_mixed",
        "cpu tf32 infer +tf32 needs",
    ):
        assert re.search(f"^{line}", text, re.MULTILINE)
    for budget in ("soon", "0s", "3h"):
        assert main(["selfcheck", f"--budget={budget}"]) == 2
        assert f"--budget {budget}: should be" in capsys.readouterr().err


@pytest.mark.slow
def test_a_cell_differs_from_itself_by_little(tmp_path, monkeypatch, hosts):
    monkeypatch.chdir(make_project(tmp_path))
    console = Console(file=io.StringIO(), width=200)
    assert selfcheck(600.0, console, hosts) == 0  # beside other tests, a process takes three times as long
    low, high = map(float, re.search(r"differ by (\S+) to (\S+) %", console.file.getvalue()).groups())
    assert low < 5
    assert high > -5


def test_the_difference_that_is_found_shrinks_with_processes_and_grows_with_noise():
    def sides(noise, num=10):
        """Two sides of one cell, whose processes differ by `noise`."""
        rates = np.exp(np.random.default_rng(0).normal(5, noise, (2, num)))
        return [[process(rate) for rate in side] for side in rates]

    def shares(sides):
        return [float(share) for share in re.findall(r"detect a slow-down of ([0-9.]+) %", detectable(*sides))]

    small, large = shares(sides(0.02)), shares(sides(0.05))
    assert large == sorted(large, reverse=True)
    assert all(low < high for low, high in zip(small, large, strict=True))
    quiet = "With 10 processes a setting, 4 of 5 comparisons here detect a slow-down of 2.0 %.\n"
    assert quiet in detectable(*sides(0.001))  # a smaller difference counts as none
    assert "With 7 processes a setting, 4 of" in detectable(*sides(0.02, num=7))
    few, many = shares([sorted(side, key=lambda process: abs(process.rates[0] - 148)) for side in sides(0.05)])
    assert few > many  # the first ones are quiet by luck
    too_few = "--budget: 4 processes of a copy were measured, but 5 are needed: set a longer time"
    with pytest.raises(UserError, match=f"^{too_few}$"):
        detectable(*sides(0.02, num=4))
