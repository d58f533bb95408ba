from pathlib import Path

from accelbench.report import read
from accelbench.report.tables import all_cells, device_scaling
from accelbench.schema.vocab import Status
from report.tables.rows import texts


def test_every_cell_is_there_as_people_and_the_script_see_it(tmp_path: Path, maker) -> None:
    for suite in ("nets", "other"):
        ok = maker.ok(maker.cell(suite=suite), 1000, compile_s=1.5)
        skipped = maker.record(maker.cell(device="gpu", suite=suite), Status.skipped, reason="no GPU")
        maker.suite(tmp_path, [ok, skipped], [maker.cell("rnn", suite=suite)])
    sweeps = read.read_all(tmp_path)
    found = all_cells.cells(sweeps)
    first, _, waiting, *_ = texts(found.table)
    assert (first["compile (s)"], first["time (s)"], first["samples/s"]) == ("1.50", "~300", "1,000")
    assert (waiting["status"], waiting["model"], waiting["samples/s"]) == ("not run yet", "rnn", "–")
    assert "peak device (MB)" not in found.table.headings  # nobody fills it
    data = found.data
    rows = [dict(zip(data["names"], row, strict=True)) for row in data["rows"]]
    assert {name: rows[0][name] for name in data["csv"]} == device_scaling.rows(sweeps[0])[0]
    assert rows[0]["label"] == "mlp-cpu-fp32-b128-train"
    assert (rows[1]["outcome"], rows[1]["remark"], rows[1]["samples_per_s"]) == ("skipped", "no GPU", None)
    assert len({row["name"] for row in rows}) == 6  # one cell of two suites is two
