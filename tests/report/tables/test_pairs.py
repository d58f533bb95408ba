from accelbench.report.tables import pairs
from accelbench.schema.cell import Options
from accelbench.schema.measurement import Evaluation
from accelbench.schema.vocab import Mode, Protocol
from accelbench.stats.means import MeanDifference
from report.tables.rows import texts

LAST, BOTH = Options(channels_last=True), Options(channels_last=True, compile=True)


def test_pairs_that_differ_in_one_setting_stand_in_one_table(read, maker):
    made = [(4000, Options(), {}), (6000, LAST, {"output_error": 1e-6}), (8000, BOTH, {"compile_s": 32.0})]
    cells = [maker.cell(mode=Mode.infer, precision="bf16", options=options) for _, options, _ in made]
    found = read([maker.ok(cell, rate, **more) for cell, (rate, _, more) in zip(cells, made, strict=True)])
    rows = texts(pairs.of_sweep(found.cells))
    assert [(row["with"], row["against"], row["times as fast"], row["compile (s)"]) for row in rows] == [
        ("channels_last", "no options", "1.50", "–"),
        ("channels_last + compile", "no options", "2.00", "32.0"),
    ]
    assert {row["how sure"] for row in rows} == {"likely"}
    assert rows[0]["output error"] == "1.00e-06"
    assert pairs.of_sweep(found.cells[:1]) is None


def test_equal_accuracies_are_judged_by_the_interval():
    assert pairs.verdict(MeanDifference(0.001, -0.004, 0.006)) == "equal within 1 %"
    assert pairs.verdict(MeanDifference(0.005, -0.005, 0.015)) == "undecided: more seeds"
    assert pairs.verdict(MeanDifference(0.03, 0.02, 0.04)) == "different"
    assert pairs.verdict(MeanDifference(0.0, 0.0, 0.0)) == "equal within 1 %"


def test_accuracies_of_equal_settings_alone_are_compared(read, maker):
    def trained(device, seed, accuracy, **changes):
        cell = maker.cell(device=device, seed=seed, protocol=Protocol.fit, **changes)
        return maker.ok(cell, 100, evaluation=Evaluation(num_samples=9, seconds=1, loss=0.1, accuracy=accuracy))

    records = [trained(device, seed, 0.97 + seed / 1000) for device in ("cpu", "xla_cpu") for seed in range(4)]
    records += [trained("gpu", seed, 0.5, batch_size=32) for seed in range(4)]
    (row,) = texts(pairs.accuracies(read(records)))
    assert (row["devices"], row["seeds"], row["accuracies (%)"]) == ("cpu less xla_cpu", "4 and 4", "97.2 and 97.2")
    assert row["verdict"] == "equal within 1 %"
