"""`accelbench compare --top` when it has nothing to measure."""

import pytest

from accelbench.cli import main
from report.conftest import Maker

maker = Maker()
TWO = {"fp32": 1000.0, "bf16": 2000.0}


def precisions(**changes):
    return [maker.ok(maker.cell(precision=word, **changes), rate) for word, rate in TWO.items()]


@pytest.mark.parametrize(
    ("records", "flags", "told"),
    [
        (
            precisions()[:1],
            [],
            "runs/nets: no job has two ok cells to compare: measure several settings at one batch size, such as "
            "`accelbench -m model=cnn precision=fp32,bf16`",
        ),
        (
            maker.interleaved(TWO),
            [],
            "runs/nets: its cells are interleaved already: for the answer, type `accelbench best runs/nets`",
        ),
        (
            precisions(),
            ["--budget", "20s"],
            "--budget: too short: the shortest comparison takes about 25 s: "
            "type `accelbench compare --top --budget 1m runs/nets`",
        ),
    ],
)
@pytest.mark.parametrize("folder", [[], ["runs/nets"]])
def test_the_reason_and_what_to_type_are_named(here, capsys, records, flags, told, folder):
    maker.suite(here / "runs", records)
    assert main(["compare", "--top", *flags, *folder]) == 2
    assert capsys.readouterr().err == f"accelbench: {told}\n"
