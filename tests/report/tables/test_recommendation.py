import dataclasses
from pathlib import Path

import pytest

from accelbench.answers.ranking import answers
from accelbench.judging.costs import Cost
from accelbench.report.read import read as read_sweep
from accelbench.report.tables import recommendation
from accelbench.schema.cell import KerasSettings, Options
from accelbench.schema.vocab import Device, Engine, Mode, Status


@pytest.fixture
def found(tmp_path: Path, maker):
    """From records to the answers."""
    return lambda records, costs=None: answers(read_sweep(maker.suite(tmp_path, records), costs or {}).cells)


@pytest.fixture
def read(tmp_path: Path, maker):
    return lambda records, costs=None: [read_sweep(maker.suite(tmp_path, records), costs or {})]


def rows(table):
    return [dict(zip(table.headings, (entry.text for entry in row), strict=True)) for row in table.rows]


def test_the_engine_is_chosen_too_and_named(found, maker) -> None:
    keras = dataclasses.replace(maker.cell(), engine=Engine.keras, keras=KerasSettings())
    (line,) = rows(recommendation.table(found([maker.ok(maker.cell(), 1000), maker.ok(keras, 2000)])))
    assert line["most samples/s with"] == "cpu fp32 b128, keras"
    assert (line["next best"], line["its samples/s"], line["times as fast"]) == (
        "cpu fp32 b128, lightning",
        "1,000",
        "2.00",
    )
    assert line["best of each precision"] == "keras: fp32 2,000; lightning: fp32 1,000"


def test_a_line_for_each_model_and_what_is_done_with_it(found, maker) -> None:
    records = [
        *(maker.ok(maker.cell(precision=precision, batch_size=size), rate * size)
          for precision, rate in (("fp32", 10), ("bf16", 20)) for size in (32, 128)),
        maker.ok(maker.cell(mode=Mode.infer), 99, warnings=["a warning"]),
    ]  # fmt: skip
    train, infer = rows(recommendation.table(found(records)))
    assert train["model, and what is done"] == "mlp train, mnist"
    assert (train["most samples/s with"], train["samples/s"], train["± (%)"]) == ("cpu bf16 b128", "2,560", "3.0")
    assert (train["next best"], train["times as fast"]) == ("cpu fp32 b128", "2.00")
    assert train["how sure"] == "likely"
    assert train["best of each precision"] == "bf16 2,560, fp32 1,280"
    assert train["least latency with"] == "cpu bf16 b128"
    assert infer["next best"] == "–"
    assert (train["warnings"], infer["warnings"]) == ("1", "2")
    assert "least money with" not in train


def test_the_next_best_is_of_another_device_precision_or_options(found, maker) -> None:
    plain = [maker.ok(maker.cell(batch_size=size, repeat=repeat), 100 + size) for size in (1, 2) for repeat in (0, 1)]
    last = maker.ok(maker.cell(batch_size=1, options=Options(channels_last=True)), 50)
    (row,) = rows(recommendation.table(found([*plain, last])))
    assert row["most samples/s with"] == "cpu fp32 b2"
    assert row["next best"] == "cpu fp32 b1, channels_last"


def test_of_several_repeats_the_middle_one_is_shown_and_all_decide_the_confidence(found, maker) -> None:
    records = []
    for repeat, luck in enumerate([1.0, 1.02, 1.3, 1.01, 1.03]):
        for side, (precision, rate) in enumerate((("fp32", 1000), ("bf16", 2000))):
            done = maker.ok(maker.cell(precision=precision, repeat=repeat), rate * luck)
            started_at = f"2026-11-20T18:{2 * repeat + side:02}:00+00:00"
            records.append(dataclasses.replace(done, started_at=started_at))
    (row,) = rows(recommendation.table(found(records)))
    assert (row["samples/s"], row["its samples/s"]) == ("2,130", "1,070")
    assert row["how sure"].startswith("sure: ")


def test_money_is_there_where_it_is_known(found, maker) -> None:
    records = [maker.ok(maker.cell(batch_size=size), 100 * size) for size in (1, 2)]
    (row,) = rows(recommendation.table(found(records, {Device.cpu: Cost(price_per_hour=3.6)})))
    assert (row["least money with"], row["cost of a million"]) == ("cpu fp32 b2", "5.00")


def test_where_no_cell_is_ok_there_is_no_answer(found, maker) -> None:
    assert recommendation.table(found([maker.record(maker.cell(), Status.skipped, reason="no")])) is None


def test_each_device_that_was_asked_for_says_whether_it_ran_and_why_not(read, maker) -> None:
    reasons = ["no GPU", "no GPU", "bf16 needs another GPU"]
    skipped = [
        maker.record(maker.cell(device="gpu", batch_size=2**i), Status.skipped, reason=reason)
        for i, reason in enumerate(reasons)
    ]
    sweeps = read([maker.ok(maker.cell(), 1), *skipped])
    cpu, gpu = rows(recommendation.devices(sweeps))
    assert (cpu["device"], cpu["did it run"], cpu["what it is"], cpu["cells ok"]) == ("cpu", "yes", "Example CPU", "1")
    assert recommendation.device_texts(sweeps) == ["cpu: Example CPU", "gpu: not measured (no GPU)"]
    assert (gpu["did it run"], gpu["cells not ok"], gpu["most frequent reason"]) == ("no", "3", "no GPU")


def test_a_gpu_is_described_where_its_record_describes_it(read, maker) -> None:
    details = {"memory_gb": 42, "multiprocessors": 42, "compute_capability": "8.0"}
    known = {"machine": {"gpus": ["A100"] * 2, "gpu_details": [details, {**details, "memory_gb": 99}]}}
    known["versions"] = {"nvidia-driver": "580.65.06"}
    cell = maker.cell(device="gpu", mode=Mode.infer)
    gpu = dataclasses.replace(maker.measurement(cell, 1), device_name="NVIDIA A100")
    record = maker.record(cell, Status.ok, measurement=gpu, environment=known)
    found = read([record, maker.ok(maker.cell(), 1)])
    shown = [row["what it is"] for row in rows(recommendation.devices(found))]
    expected = "NVIDIA A100 (42 GB, 42 multiprocessors, compute capability 8.0, driver 580.65.06)"
    assert shown == ["Example CPU", expected]
    older = maker.record(cell, Status.ok, measurement=gpu)
    assert rows(recommendation.devices(read([older])))[0]["what it is"] == "NVIDIA A100"
