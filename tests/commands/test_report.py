import io
from argparse import Namespace
from pathlib import Path

import pytest
from rich.console import Console

from accelbench.commands.command import Context
from accelbench.commands.records import REPORT
from accelbench.schema import record
from report.conftest import Maker


def test_names_are_no_markup_and_records_that_are_not_shown_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "config.yaml").touch()
    (tmp_path / "params.yaml").touch()
    monkeypatch.chdir(tmp_path)
    maker = Maker()
    folder = maker.suite(tmp_path / "runs", [maker.ok(maker.cell(suite="[bold]\x1b[2J"), 1000)])
    record.write(maker.ok(maker.cell(batch_size=1), 10), folder)
    console = Console(file=io.StringIO(), width=80)
    context = Context(console=console, out=None)
    assert REPORT.run(Namespace(folder=f"runs/{folder.name}"), context) == 0
    note, address = console.file.getvalue().splitlines()
    assert note.startswith(r"1 record in runs/[bold]\x1b[2J is not in its plan, and is not shown: ")
    assert address == r"Report: runs/[bold]\x1b[2J/report/index.html"
