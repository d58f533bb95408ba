import pytest

from accelbench.report import study_comparison
from accelbench.report.pictures import by_batch, studies
from accelbench.report.read import read as read_sweep
from accelbench.report.tables import all_cells, batch_scaling, best, options, study_times
from accelbench.report.tables.options import steps_to_pay
from accelbench.schema.cell import Options
from accelbench.schema.vocab import Device, Mode, Status

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


def test_no_device_gains_by_an_option_that_the_cpu_cell_does_not_have(read):
    found = read((1000, {}, {}), (9000, {"device": "gpu", "options": COMPILED}, {}))
    assert study_comparison.gain_over(Device.cpu, found.cells[1], found.cells, "samples_per_s") is None
    compared = {each.device: each.speedup for each in study_comparison.compare_with_published(found, Mode.infer)}
    assert compared == {"cpu": 1, "gpu": None}


def test_the_cell_nearest_to_a_study_is_plain_however_far(read):
    found = read((9000, {"options": COMPILED}, {}), (1, {"precision": "bf16", "batch_size": 1}, {}))
    assert study_comparison.nearest_cell(found, "mlp", Mode.infer, "cpu").cell.options == Options()


def test_tables_tell_cells_with_other_options_apart(read):
    batches = [
        (rate * batch, {"batch_size": batch, "options": on}, {})
        for batch in (1, 2, 4)
        for rate, on in ((10, Options()), (20, BOTH))
    ]
    found = read(*batches)
    assert [row["options"] for row in shown(batch_scaling.best_batch(found))] == ["–", "channels_last + compile"]
    assert [s.partition(":")[0] for s in batch_scaling.conclusions(found)] == [
        "mlp on cpu in fp32",
        "mlp on cpu in fp32, channels_last + compile",
    ]
    (fastest, *_) = shown(best.table([found]))
    assert (fastest["samples/s"], fastest["options"]) == ("80.0", "channels_last + compile")
    assert {row["options"] for row in shown(all_cells.cells([found]).table)} == {"–", "channels_last + compile"}
    assert study_times.describe(found.cells[1]).startswith("fp32, batch 1, channels_last + compile, ")


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_pictures_join_no_cells_with_other_options_and_name_them(read):
    both = [
        (rate, {"batch_size": batch, "options": on}, {}) for batch in (1, 2) for rate, on in ((10, LAST), (20, BOTH))
    ]
    found = read((5, {"batch_size": 1}, {}), *both)
    names = ["cpu fp32", "cpu fp32 channels_last", "cpu fp32 channels_last + compile"]
    lines = by_batch.throughput(found.ok_rows, "title", "")
    drawn = [container[0] for container in lines.axes[0].containers]
    assert [list(line.get_xdata()) for line in drawn] == [[1], [1, 2], [1, 2]]
    assert len({str(line._unscaled_dash_pattern) for line in drawn}) == 3
    bars = studies.families(found.cells, lambda reported: reported.number("samples_per_s"), "images/s", "title", "")
    assert sorted(bar.get_x() for bar in bars.axes[0].patches) == [bar.get_x() for bar in bars.axes[0].patches]
    assert len({bar.get_hatch() for bar in bars.axes[0].patches}) == 3
    panels = studies.dashboard(found.cells, "title", "")
    assert legend(lines) == names
    assert legend(bars) == legend(panels) == [*names, "has warnings: see its row"]
