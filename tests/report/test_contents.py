import dataclasses

from accelbench.report import build
from accelbench.report.build import metrics
from accelbench.report.contents import compose, reasons
from accelbench.report.read import cells_in
from accelbench.schema.cell import Engine, Status
from report.rows import texts


def test_a_cell_is_a_row_of_cells_csv_however_many_processes_it_has(read, maker) -> None:
    ok = [maker.ok(maker.cell(repeat=i), 1, data=maker.stand_in) for i in range(3)]
    failed = maker.record(maker.cell(repeat=3), Status.failed, reason="now and then")
    skipped = [maker.record(maker.cell(device="gpu", repeat=i), Status.skipped, reason="no GPU") for i in range(2)]
    sweep = read([*ok, failed, *skipped])
    page = compose([sweep])
    assert (len(sweep.cells), page.counts) == (2, {"ok": 1, "skipped": 1})
    announced = "NOT MNIST: a stand-in (a drawn digit for each class) was measured."
    assert page.stand_ins["mnist"].startswith(announced)
    found = metrics(page)
    assert [found[word] for word in ("ok", "skipped", "failed")] == [1, 1, 0]


def test_only_what_was_measured_counts_as_measured(read, maker) -> None:
    skipped = maker.record(maker.cell(device="gpu"), Status.skipped, reason="no GPU", data=maker.stand_in)
    skipped = dataclasses.replace(skipped, started_at="2026-11-19T18:00:00+00:00")
    page = compose([read([maker.ok(maker.cell(), 1), skipped])])
    assert (page.stand_ins, page.when) == ({}, ("2026-11-20 18:00", "2026-11-20 18:00"))
    page = compose([read([skipped])])
    assert (page.stand_ins, page.when) == ({}, None)
    assert "- \n" not in build.markdown(page, "")


def test_each_machine_is_counted_and_named_with_its_processes(read, maker) -> None:
    records = [maker.ok(maker.cell(batch_size=size), 1) for size in (1, 2, 4)]
    newer = records[1].environment["machine"] | {"platform": "Linux-9.9"}  # of Python alone: no other machine
    records[1] = dataclasses.replace(records[1], environment=records[1].environment | {"machine": newer})
    assert compose([read(records)]).machines == ["Example CPU @ 2.0 GHz, 2 cores"]
    other = {"machine": {"cpu_name": "Other", "gpus": ["Example GPU"]}, "code": "abc123"}
    page = compose([read([dataclasses.replace(records[0], environment=other), *records[1:]])])
    assert page.machines[0] == "Other, Example GPU"
    assert page.environments[0] == ("machine (2 of 3 processes differ)", "cpu name Other, gpus Example GPU")
    assert ("code", "abc123") in page.environments
    keras = maker.ok(maker.cell(engine=Engine.keras), 1)  # whose code is another one
    keras = dataclasses.replace(keras, environment=keras.environment | {"code": "of Keras"})
    assert "differ" not in str(compose([read([records[0], keras])]).environments)


def test_cells_are_grouped_by_reason(read, maker) -> None:
    skipped = [maker.record(maker.cell(batch_size=2**i), Status.skipped, reason="no GPU") for i in range(6)]
    failed = maker.record(maker.cell("cnn"), Status.failed, reason="raised")
    beside = maker.record(maker.cell("lstm", repeat=1), Status.failed, reason="now and then")  # of a cell that is ok
    found = [read([maker.ok(maker.cell("lstm"), 1), beside, failed, *skipped], [maker.cell("rnn")])]
    rows = texts(reasons(cells_in(found)))
    assert [(row["status"], row["cells"], row["reason"]) for row in rows] == [
        ("failed", "1", "raised"),
        ("not run yet", "1", "–"),
        ("skipped", "6", "no GPU"),
    ]
    assert reasons(cells_in([read([maker.ok(maker.cell(), 1)])])) is None
