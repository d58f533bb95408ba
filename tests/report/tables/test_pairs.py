from accelbench.answers.ranking import answers
from accelbench.report.read import read
from accelbench.report.tables import all_cells, best, pairs
from accelbench.schema.cell import Options
from accelbench.schema.vocab import Mode, Status
from report.tables.rows import texts

LAST, BOTH = Options(channels_last=True), Options(channels_last=True, compile=True)


def sweep(tmp_path, maker, *made):
    records = [maker.ok(maker.cell(mode=Mode.infer, **settings), rate, **measured) for rate, settings, measured in made]
    return read(maker.suite(tmp_path, records))


def test_pairs_that_differ_in_one_setting_stand_in_one_table(tmp_path, maker):
    found = sweep(
        tmp_path,
        maker,
        (4000, {"precision": "bf16"}, {}),
        (6000, {"precision": "bf16", "options": LAST}, {"output_error": 1e-6}),
        (8000, {"precision": "bf16", "options": BOTH}, {"compile_s": 32.0}),
    )
    rows = texts(pairs.of_sweep(found.cells))
    assert [(row["with"], row["against"], row["times as fast"], row["pays after (steps)"]) for row in rows] == [
        ("channels_last", "no options", "1.50", "–"),
        ("channels_last + compile", "no options", "2.00", "2,000"),
        ("channels_last + compile", "channels_last", "1.33", "6,001"),
    ]
    assert {row["how sure"] for row in rows} == {"likely"}
    assert rows[0]["output error"] == "1.00e-06"


def test_without_a_pair_there_is_no_table(tmp_path, maker):
    assert pairs.of_sweep(sweep(tmp_path, maker, (1000, {}, {})).cells) is None
    failed = maker.record(maker.cell(options=LAST), Status.failed, reason="no")
    assert pairs.of_sweep(read(maker.suite(tmp_path, [maker.ok(maker.cell(), 1), failed])).cells) is None


def test_tables_tell_cells_with_other_options_apart(tmp_path, maker):
    batches = [
        (rate * batch, {"batch_size": batch, "options": on}, {})
        for batch in (1, 2, 4)
        for rate, on in ((10, Options()), (20, BOTH))
    ]
    found = sweep(tmp_path, maker, *batches)
    (fastest, *_) = texts(best.table(answers(found.cells)))
    assert (fastest["samples/s"], fastest["options"]) == ("80.0", "channels_last + compile")
    assert {row["options"] for row in texts(all_cells.cells([found]).table)} == {"–", "channels_last + compile"}
