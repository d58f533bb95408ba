from accelbench.report.read import read
from accelbench.report.tables import options_alone
from accelbench.schema.cell import Options
from accelbench.schema.measurement import Block
from accelbench.schema.vocab import Allocator, Mode

JEMALLOC, LAST = Options(allocator=Allocator.jemalloc), Options(channels_last=True)
BOTH = Options(channels_last=True, allocator=Allocator.jemalloc)
FLUSHING = Options(flush_denormals=True)


def shown(tmp_path, maker, *cells):
    records = [
        maker.ok(maker.cell(**{"mode": Mode.train, "options": options, **settings}), rate)
        for rate, options, settings in cells
    ]
    table = options_alone.table(read(maker.suite(tmp_path, records)))
    return table and (
        [dict(zip(table.headings, (entry.text for entry in row), strict=True)) for row in table.rows],
        table.notes,
    )


def test_each_option_is_judged_alone_and_with_the_others_and_slower_ones_are_named(tmp_path, maker):
    cells = [(1000, Options(), {}), (1250, JEMALLOC, {}), (800, LAST, {}), (1200, BOTH, {}), (1020, FLUSHING, {})]
    rows, notes = shown(tmp_path, maker, *cells)
    found = [(row["option"], row["alone (x)"], row["with others (x)"], row["others"], row["verdict"]) for row in rows]
    assert found == [
        ("jemalloc", "1.25", "1.50", "channels_last", "faster"),
        ("channels_last", "0.800", "0.960", "jemalloc", "alone slower, with others can't tell"),
        ("flush_denormals", "1.02", "–", "–", "can't tell"),
    ]
    assert notes[1:] == ["Slower: channels_last alone (mlp, 0.80 x)."]


def test_only_cells_that_differ_in_nothing_else_are_compared(tmp_path, maker):
    assert shown(tmp_path, maker, (1000, Options(), {}), (1250, JEMALLOC, {"batch_size": 7})) is None
    assert shown(tmp_path, maker, (1000, Options(), {})) is None


def test_intervals_that_overlap_are_no_verdict(tmp_path, maker):
    def wide(rate):
        return {
            "blocks": [Block(num_steps=1, num_samples=round(rate * (1 + 0.04 * i)), seconds=1.0) for i in range(-8, 9)]
        }

    records = [
        maker.ok(maker.cell(options=options), rate, **wide(rate))
        for rate, options in ((1000, Options()), (1100, JEMALLOC))
    ]
    table = options_alone.table(read(maker.suite(tmp_path, records)))
    assert [entry.text for entry in table.rows[0]][-1] == "can't tell"
