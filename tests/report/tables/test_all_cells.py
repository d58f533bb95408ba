from pathlib import Path

from accelbench.report import read
from accelbench.report.tables import all_cells, device_scaling
from accelbench.report.tables.all_cells import Cells
from accelbench.schema.vocab import Status
from report.tables.rows import texts


def of(folder: Path) -> Cells:
    return all_cells.cells(read.read_all(folder))


def test_every_cell_is_there_and_columns_that_nobody_fills_are_not(tmp_path: Path, maker) -> None:
    for suite in ("nets", "other"):
        cell = maker.cell(suite=suite)
        maker.suite(tmp_path, [maker.ok(cell, 1000, compile_s=1.5)], [maker.cell("rnn", suite=suite)])
    found = of(tmp_path)
    ok, waiting, *others = texts(found.table)
    assert (ok["compile (s)"], ok["time (s)"], ok["samples/s"]) == ("1.50", "~300", "1,000")
    assert (waiting["status"], waiting["model"], waiting["samples/s"]) == ("not run yet", "rnn", "–")
    assert "peak device (MB)" not in found.table.headings
    assert len({row["name"] for row in found.rows}) == 4  # one cell of two suites is two


def test_the_script_gets_the_rows_of_cells_csv_and_what_people_see_of_them(tmp_path: Path, maker) -> None:
    ok, skipped = maker.ok(maker.cell(), 1000), maker.record(maker.cell(device="gpu"), Status.skipped, reason="no GPU")
    maker.suite(tmp_path, [ok, skipped])
    (only,) = read.read_all(tmp_path)
    data = of(tmp_path).data
    first, second = (dict(zip(data["names"], row, strict=True)) for row in data["rows"])
    assert {name: first[name] for name in data["csv"]} == device_scaling.rows(only)[0]
    assert first["label"] == "mlp-cpu-fp32-b128-train"
    assert first["name"] == f"nets/{ok.name}"
    assert (second["outcome"], second["remark"], second["samples_per_s"]) == ("skipped", "no GPU", None)


def test_figures_that_a_cell_has_can_be_charted_and_what_the_script_is_told_are_columns(results: Path) -> None:
    data = of(results).data
    metrics = {metric["name"]: metric for metric in data["metrics"]}
    assert list(metrics)[:4] == ["samples_per_s", "latency_p50_ms", "latency_p99_ms", "peak_host_mb"]
    assert metrics["samples_per_s"]["better"] == "more"
    told = {*data["series"], *data["csv"], *(name for _, name in data["filters"])}
    told |= {name for _, name, _ in data["columns"]} | {metrics["samples_per_s"][end] for end in ("low", "high")}
    assert told <= set(data["names"])
