import dataclasses

from accelbench.report.tables import outcomes
from accelbench.schema.vocab import Mode, Status
from report.tables.rows import texts


def test_cells_are_grouped_by_reason_and_failures_listed_with_their_last_line(read, maker) -> None:
    skipped = [maker.record(maker.cell(batch_size=2**i), Status.skipped, reason="no GPU") for i in range(6)]
    error = "Traceback\n  File ...\nValueError: shapes\n\n"
    failed = maker.record(maker.cell("cnn"), Status.failed, reason="raised", error=error)
    found = [read([maker.ok(maker.cell("lstm"), 1), failed, *skipped], [maker.cell("rnn")])]
    rows = texts(outcomes.reasons(found))
    assert [(row["status"], row["cells"], row["reason"]) for row in rows] == [
        ("failed", "1", "raised"),
        ("not run yet", "1", "–"),
        ("skipped", "6", "no GPU"),
    ]
    assert rows[2]["which"].endswith("and 4 more")
    well = [read([maker.ok(maker.cell(), 1)])]
    assert outcomes.reasons(well) is outcomes.failures(well) is None
    (row,) = texts(outcomes.failures(found))
    assert (row["cell"], row["last line of the error"]) == ("cnn-cpu-fp32-b128-train", "ValueError: shapes")


def test_each_device_that_was_asked_for_says_whether_it_ran_and_why_not(read, maker) -> None:
    reasons = enumerate(["no GPU", "no GPU", "bf16 needs another GPU"])
    cells = [(maker.cell(device="gpu", batch_size=2**i), reason) for i, reason in reasons]
    skipped = [maker.record(cell, Status.skipped, reason=reason) for cell, reason in cells]
    sweeps = [read([maker.ok(maker.cell(), 1), *skipped])]
    cpu, gpu = texts(outcomes.devices(sweeps))
    assert (cpu["device"], cpu["did it run"], cpu["what it is"], cpu["cells ok"]) == ("cpu", "yes", "Example CPU", "1")
    assert outcomes.device_texts(sweeps) == ["cpu: Example CPU", "gpu: not measured (no GPU)"]
    assert (gpu["did it run"], gpu["cells not ok"], gpu["most frequent reason"]) == ("no", "3", "no GPU")


def test_a_gpu_is_described_where_its_record_describes_it(read, maker) -> None:
    details = {"memory_gb": 42, "multiprocessors": 42, "compute_capability": "8.0"}
    known = {"machine": {"gpus": ["A100"] * 2, "gpu_details": [details, {**details, "memory_gb": 99}]}}
    known["versions"] = {"nvidia-driver": "580.65.06"}
    cell = maker.cell(device="gpu", mode=Mode.infer)
    gpu = dataclasses.replace(maker.measurement(cell, 1), device_name="NVIDIA A100")
    record = maker.record(cell, Status.ok, measurement=gpu, environment=known)
    shown = [row["what it is"] for row in texts(outcomes.devices([read([record, maker.ok(maker.cell(), 1)])]))]
    expected = "NVIDIA A100 (42 GB, 42 multiprocessors, compute capability 8.0, driver 580.65.06)"
    assert shown == ["Example CPU", expected]
    older = maker.record(cell, Status.ok, measurement=gpu)
    assert texts(outcomes.devices([read([older])]))[0]["what it is"] == "NVIDIA A100"
