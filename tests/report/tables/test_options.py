import pytest

from accelbench.report.read import read as read_sweep
from accelbench.report.tables import all_cells, best, options
from accelbench.report.tables.options import steps_to_pay
from accelbench.schema.cell import Options
from accelbench.schema.vocab import Mode, Status

COMPILED = Options(compile=True)
LAST = Options(channels_last=True)
BOTH = Options(channels_last=True, compile=True)


@pytest.fixture
def read(tmp_path, maker):
    """From (rate, what the cell is, what is measured) to the sweep."""

    def read(*cells, study_name=None):
        records = [
            maker.ok(maker.cell(**{"mode": Mode.infer, **settings}), rate, **measured)
            for rate, settings, measured in cells
        ]
        return read_sweep(maker.suite(tmp_path, records, study=study_name))

    return read


def shown(table):
    return [dict(zip(table.headings, (entry.text for entry in row), strict=True)) for row in table.rows]


@pytest.mark.parametrize(
    ("plain", "compiled", "seconds", "num"),
    [(0.2, 0.1, 10, 100), (0.2, 0.1, 10.01, 101), (0.2, 0.1, 0, 0), (0.1, 0.1, 10, None), (0.1, 0.2, 10, None)],
)
def test_compiling_pays_once_the_saved_time_equals_the_compile_time(plain, compiled, seconds, num):
    assert steps_to_pay(plain, compiled, seconds) == num
    if num is not None:
        assert seconds + num * compiled == pytest.approx(num * plain, abs=plain)  # there the two have caught up


def test_gains_are_over_the_plain_cell_of_the_same_precision_and_over_fp32(read):
    table = options.table(
        read(
            (1000, {}, {}),
            (2000, {"options": LAST}, {"output_error": 1e-6}),
            (4000, {"precision": "bf16"}, {}),
            (8000, {"precision": "bf16", "options": BOTH}, {"compile_s": 32.0}),
        )
    )
    rows = shown(table)
    assert [(r["precision"], r["options"], r["over plain (x)"], r["over plain fp32 (x)"]) for r in rows] == [
        ("fp32", "plain", "1.00", "1.00"),
        ("fp32", "channels_last", "2.00", "2.00"),
        ("bf16", "plain", "1.00", "4.00"),
        ("bf16", "channels_last + compile", "2.00", "8.00"),
    ]
    assert [r["output error"] for r in rows] == ["–", "1.00e-06", "–", "–"]
    # 128 samples take 32 ms plain and 16 ms compiled: 32 s are saved after 2000 steps.
    assert [(r["pays after (steps)"], r["against"]) for r in rows] == [("–", "–")] * 3 + [("2,000", "plain")]


def test_compiling_is_judged_by_the_same_options_uncompiled_where_those_were_measured(read):
    slower = {"compile_s": 10.0}
    table = options.table(read((1000, {}, {}), (2000, {"options": LAST}, {}), (1900, {"options": BOTH}, slower)))
    row = shown(table)[2]
    assert (row["over plain (x)"], row["pays after (steps)"], row["against"]) == ("1.90", "never", "channels_last")


@pytest.mark.parametrize("other", [{"batch_size": 32}, {"seed": 1}, {"repeat": 1}, {"threads": 1}, {"mode": "train"}])
def test_no_gain_over_a_cell_that_differs_in_more(read, other):
    other = other | ({"mode": Mode.train} if "mode" in other else {})
    table = options.table(read((1000, other, {}), (2000, {"options": COMPILED}, {"compile_s": 1.0})))
    (row,) = shown(table)
    assert "over plain (x)" not in row
    assert "pays after (steps)" not in row


def test_without_options_there_is_no_table(read, tmp_path, maker):
    assert options.table(read((1000, {}, {}))) is None
    failed = maker.record(maker.cell(options=COMPILED), Status.failed, reason="no")
    assert options.table(read_sweep(maker.suite(tmp_path, [maker.ok(maker.cell(), 1), failed]))) is None


def test_tables_tell_cells_with_other_options_apart(read):
    batches = [
        (rate * batch, {"batch_size": batch, "options": on}, {})
        for batch in (1, 2, 4)
        for rate, on in ((10, Options()), (20, BOTH))
    ]
    found = read(*batches)
    (fastest, *_) = shown(best.table([found]))
    assert (fastest["samples/s"], fastest["options"]) == ("80.0", "channels_last + compile")
    assert {row["options"] for row in shown(all_cells.cells([found]).table)} == {"–", "channels_last + compile"}
