"""`accelbench regressions` on records of two git revisions."""

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest

from accelbench.cli import main
from accelbench.schema import record as records
from accelbench.schema.vocab import Precision, Status
from tests.sinks.samples import ENVIRONMENT, cell, record

BEFORE, AFTER = "1111111aaa", "2222222bbb"
PLACE = "runs/ci@1111111..2222222"
START = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)


def measured(revision, position, slower=1.0, status=Status.ok, of=None, **environment):
    """A process of a revision, the `position`-th of all."""
    made = record(dataclasses.replace(of or cell(), repeat=position), status, number=position)
    measurement = made.measurement and dataclasses.replace(
        made.measurement,
        blocks=[
            dataclasses.replace(block, seconds=block.seconds * slower * (1 + position % 3 / 200))
            for block in made.measurement.blocks
        ],
    )
    return dataclasses.replace(
        made,
        started_at=(START + timedelta(seconds=position)).isoformat(),
        measurement=measurement,
        environment=ENVIRONMENT | {"git": {"revision": revision, "dirty": False, "branch": "main"}} | environment,
    )


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def written(*found):
        for each in found:
            records.write(each, tmp_path / "runs" / "ci")

    return written


def turns(num=8, **changes):
    """Processes of both revisions, in turns; `changes` hold for the second one."""
    return [measured(AFTER if i % 2 else BEFORE, i, **(changes if i % 2 else {})) for i in range(2 * num)]


@pytest.mark.parametrize(
    ("changes", "said"), [({"slower": 1.3}, " slower"), ({"status": Status.failed}, "failed  at the second revision: ")]
)
def test_a_cell_that_is_slower_or_fails_now_is_named_and_fails_the_command(written, capsys, changes, said):
    written(*turns(**changes))
    assert main(["regressions", PLACE]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [said in line for line in lines if line.lstrip().startswith("cnn-cpu-fp32-b128-train")] == [True]


@pytest.mark.parametrize(
    ("found", "place", "words"),
    [
        (turns(num=3), PLACE, "no cell could be tested"),
        (turns(of=cell(precision=Precision.bf16)), PLACE, "share no cell, because their cells differ in precision"),
        (turns(machine={"cpu_name": "another"}), PLACE, "several machines"),
        *((turns(num=3), each, "revision") for each in ("results", "runs/ci@1111111", "runs/ci@..2222222")),
    ],
)
def test_what_cant_be_compared_is_said(found, place, words, written, capsys):
    written(*found)
    assert main(["regressions", place]) == 2
    assert words in capsys.readouterr().err
