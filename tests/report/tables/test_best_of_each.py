import dataclasses
import io

import pytest
from rich.console import Console

from accelbench.report import read
from accelbench.report.tables import best_of_each
from accelbench.report.tables.on_terminal import rendered
from accelbench.schema.vocab import Mode, Precision


@pytest.fixture
def suite(tmp_path, maker):
    """Two networks, one of them in two precisions: step times of 32 samples are 32 / rate."""
    long_name = maker.cell("efficientnet_b0", mode=Mode.infer, batch_size=32, precision=Precision.bf16_mixed)
    slow = dataclasses.replace(long_name, precision=Precision.fp32)
    other = maker.cell("mlp", mode=Mode.infer, batch_size=32)
    return read.read(maker.suite(tmp_path, [maker.ok(long_name, 100.0), maker.ok(slow, 50.0), maker.ok(other, 1000.0)]))


def test_each_model_has_its_own_table_that_fits_a_terminal(suite):
    found, outside = best_of_each.of_each([suite])
    assert [each.found.fastest.cell.model.name for each in found] == ["efficientnet_b0", "mlp"]
    assert outside == []
    out = io.StringIO()
    for each in found:
        Console(file=out, width=80).print(rendered(each.table()))
    headings, _, choice, *_ = out.getvalue().strip().splitlines()
    assert headings.split()[:4] == ["best", "by", "with", "samples/s"]
    assert "cpu bf16_mixed b32" in choice


def test_a_model_of_which_no_cell_is_within_the_limit_is_named(suite):
    every, _ = best_of_each.of_each([suite])
    limit = float(every[1].found.fastest.row["latency_p50_ms"])
    inside, outside = best_of_each.of_each([suite], latency_ms=limit)
    assert [each.found.fastest.cell.model.name for each in inside] == ["mlp"]
    assert [name.split()[0] for name in outside] == ["efficientnet_b0"]
    assert best_of_each.of_each([suite], latency_ms=limit / 2)[0] == []
