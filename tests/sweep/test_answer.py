import io

import pytest
from rich.console import Console

from accelbench.schema.measurement import Block
from accelbench.schema.record import Record
from accelbench.schema.vocab import Precision, Status
from accelbench.sweep import terminal
from fakes import make_cell, make_measurement


def record(rate=100.0, status=Status.ok, **changes):
    blocks = [Block(num_steps=10, num_samples=320, seconds=320 / rate + jitter) for jitter in (0.0, 0.01, 0.02) * 3]
    return Record(
        cell=make_cell(**changes),
        identity="1d" * 32,
        status=status,
        started_at="2026-11-20T09:00:00.000+00:00",
        wall_s=1.0,
        environment={},
        measurement=make_measurement(blocks=blocks) if status == Status.ok else None,
    )


def said(*records):
    out = io.StringIO()
    terminal.show_answer(records, "runs/mine", Console(file=out, width=100))
    return out.getvalue()


def test_the_fastest_cell_is_named_with_its_lead_over_the_next_setting():
    text = said(
        record(batch_size=8),
        record(300.0, precision=Precision.bf16),
        record(290.0, precision=Precision.bf16, batch_size=8),
    )
    words = " ".join(text.split())
    assert words.startswith("mlp, inference, mnist: bf16, batch 32 is fastest here, 29")
    assert "images/s" in words
    assert "; 2.98 times as fast as fp32, batch 8 (likely)." in words
    table = text.partition("(likely).")[2]
    assert table.index("cpu bf16 b32") < table.index("cpu bf16 b8") < table.index("cpu fp32 b8")
    assert "accelbench best runs/mine" in words


def test_cells_that_differ_in_the_batch_only_are_compared_too():
    words = " ".join(said(record(), record(50.0, batch_size=8)).split())
    assert "fp32, batch 32 is fastest here, 99.7 images/s, median step 10.0 ms" in words
    assert "; 2.00 times as fast as fp32, batch 8 (likely)." in words


@pytest.mark.parametrize("others", [(), (record(status=Status.failed, batch_size=8),)])
def test_one_measured_cell_answers_nothing(others):
    assert said(record(), *others) == ""
