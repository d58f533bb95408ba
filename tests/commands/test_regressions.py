"""`accelbench regressions` on records of two git revisions."""

import dataclasses
import json
from datetime import UTC, datetime, timedelta

import pytest

from accelbench.cli import main
from accelbench.schema import record as records
from accelbench.schema.vocab import Precision, Status
from tests.sinks.samples import ENVIRONMENT, cell, record

BEFORE, AFTER = "1111111aaa", "2222222bbb"
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


def test_a_slower_cell_is_named_and_fails(written, capsys):
    written(*turns(slower=1.3))
    assert main(["regressions", "runs/ci@1111111..2222222"]) == 1
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == "1 slower"
    assert second.split()[:2] == ["cnn-cpu-fp32-b128-train", "slower"]


def test_equal_revisions_pass_and_json_has_every_cell(written, capsys):
    written(*turns())
    assert main(["regressions", "--json", "runs/ci@1111111..2222222"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["change"] for each in found["cells"]] == ["no change found"]
    assert any("1111111" in note for note in found["notes"])


def test_a_cell_that_fails_now_fails_the_command(written, capsys):
    written(*turns(status=Status.failed))
    assert main(["regressions", "runs/ci@1111111..2222222"]) == 1
    assert "failed  at the second revision: failed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (turns(num=3), "no cell could be tested"),
        (turns(of=cell(precision=Precision.bf16)), "share no cell: they differ in precision"),
        (turns(machine={"cpu_name": "another"}), "several machines"),
    ],
)
def test_what_cant_be_compared_is_said(found, words, written, capsys):
    written(*found)
    assert main(["regressions", "runs/ci@1111111..2222222"]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("text", ["results", "runs/ci@1111111", "runs/ci@..2222222", "runs/ci@1111111..EPYC"])
def test_other_words_are_refused(text, written, capsys):
    written(*turns())
    assert main(["regressions", text]) == 2
    assert "revision" in capsys.readouterr().err
