from pathlib import Path

from accelbench.answers.groups import groups
from accelbench.report import read
from accelbench.report.tables import all_cells, device_scaling
from accelbench.schema.vocab import Status


def test_every_cell_is_there_as_people_and_the_script_see_it(tmp_path: Path, maker) -> None:
    for suite in ("nets", "other"):
        ok = [
            maker.ok(maker.cell(suite=suite, precision=word), rate)
            for word, rate in {"fp32": 1000, "bf16": 500}.items()
        ]
        skipped = maker.record(maker.cell(device="gpu", suite=suite), Status.skipped, reason="no GPU")
        maker.suite(tmp_path, [*ok, skipped], [maker.cell("rnn", suite=suite)])
    sweeps = read.read_all(tmp_path)
    found = all_cells.cells(sweeps, groups(cell for sweep in sweeps for cell in sweep.cells))
    assert "peak device (MB)" not in [column.heading for column in found.columns]  # nobody fills it
    data = found.data
    rows = [dict(zip(data["names"], row, strict=True)) for row in data["rows"]]
    assert {name: rows[0][name] for name in data["csv"]} == device_scaling.rows(sweeps[0])[0]
    assert rows[0]["label"] == "mlp-cpu-fp32-b128-train"
    assert (rows[2]["outcome"], rows[2]["remark"], rows[2]["samples_per_s"]) == ("skipped", "no GPU", None)
    verdicts = [row["verdict"] for row in rows]
    assert verdicts == 2 * ["fastest", "0.500 times as fast, likely", None, None]
    assert len({row["name"] for row in rows}) == 8  # one cell of two suites is two
