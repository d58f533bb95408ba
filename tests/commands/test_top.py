"""`accelbench compare --top` when it has nothing to measure."""

import pytest

from accelbench.cli import main
from report.conftest import Maker

maker = Maker()
TWO = {"fp32": 1000.0, "bf16": 2000.0}


def precisions(**changes):
    return [maker.ok(maker.cell(precision=word, **changes), rate) for word, rate in TWO.items()]


@pytest.mark.parametrize(
    ("records", "flags", "why"),
    [
        (precisions()[:1], [], "no fastest cell of a job has another ok cell"),
        (maker.interleaved(TWO), [], "no fastest cell of a job has another ok cell"),
        (precisions(), ["--budget", "20s"], "--budget is too short: the comparison takes about "),
    ],
)
def test_the_reason_is_named(here, capsys, records, flags, why):
    maker.suite(here / "runs", records)
    assert main(["compare", "--top", *flags, "runs/nets"]) == 2
    assert capsys.readouterr().err.startswith(f"accelbench: runs/nets: no two cells to compare: {why}")


def test_the_former_command_names_the_present_one(here, capsys):
    maker.suite(here / "runs", precisions())
    assert main(["regressions", "runs/nets@1111111..2222222"]) == 2
    said = capsys.readouterr()
    assert "type accelbench compare runs/nets@1111111 runs/nets@2222222 --fail-if slower:0%" in said.out
    assert main(["regressions", "runs/nets@1111111"]) == 2
