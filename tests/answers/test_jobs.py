import dataclasses
from dataclasses import replace

import pytest

from accelbench.answers import headline
from accelbench.answers.cells import NOT_RUN, WHY_OLDER, Process, cells_of, process_rows
from accelbench.answers.jobs import CRITERIA, Limit, choices, jobs, verdict_text
from accelbench.judging.costs import Cost
from accelbench.judging.row import MEASURED
from accelbench.schema.cell import DataSpec, Device, Engine, Library, Mode, ModelSpec, Options, Pipeline, Status, Window
from accelbench.schema.measurement import Data
from answers.conftest import answered, cells, maker

FAST, QUICK, MIDDLE, BEATEN = (1000, 0.05), (200, 0.002), (500, 0.01), (400, 0.02)


def test_the_sentence_says_what_is_fastest_by_how_much_and_how_sure() -> None:
    cells = [maker.cell(precision=word, batch_size=size) for word in ("fp32", "bf16", "fp16") for size in (32, 128)]
    (found,) = answered([maker.ok(cell, rate) for cell, rate in zip(cells, (80, 100, 300, 400, 50, 60), strict=True)])
    assert (found.what, found.name) == ("mlp train, mnist", "mlp train")
    assert found.sentence == (
        "PyTorch bf16 b128 is fastest here, 400 samples/s, median step 432 ms; "
        "4.00 times as fast as PyTorch fp32 b128 (likely)."
    )
    names = [found.text(cell) for cell in (found.fastest, *found.others[:2])]
    assert names == ["PyTorch bf16 b128", "PyTorch fp32 b128", "PyTorch fp16 b128"]
    assert verdict_text(found, found.fastest) == "4.00 times, likely"
    assert verdict_text(found, found.others[0]) == "reference"
    # Interleaved processes decide.
    (answer,) = answered(maker.interleaved({"fp32": 1000, "bf16": 2000}, growth=0.001))
    assert answer.sentence.endswith("2.00 times as fast as PyTorch fp32 b128 (sure).")
    (answer,) = answered(maker.interleaved({"fp32": 1000, "bf16": 1001}))
    assert answer.sentence.startswith("PyTorch bf16 b128 and PyTorch fp32 b128 are equally fast, 1,000 samples/s")
    assert verdict_text(answer, answer.fastest) == "1.00 times, same"
    records = maker.interleaved({"fp32": 900, "bf16": 1000})
    for at, rate in ((5, 1010), (7, 300), (9, 300)):  # of bf16
        records[at] = maker.at(maker.ok(records[at].cell, rate), at)
    (answer,) = answered(records)
    assert "PyTorch fp32 b128 measured fastest, 900 samples/s" in answer.sentence
    assert "times as fast as PyTorch bf16 b128, but can't tell: " in answer.sentence


def test_answers_of_one_name_say_what_tells_them_apart() -> None:
    def told(*records):
        return [answer.data for answer in answered(records)]

    def cells(name, *values, **same):
        return told(*(maker.ok(maker.cell(**{name: value}, **same), 1) for value in values))

    def on(cpu_name, **machine):
        machine = {"cpu_name": cpu_name, **machine}
        return dataclasses.replace(here, environment={"machine": machine}, identity=str(len(machine)) * 64)

    assert cells("protocol", "steps", "fit", "window") == ["mnist steps", "mnist fit", "mnist"]
    assert cells("steps", 32, 512, protocol="steps") == ["mnist steps, steps=32", "mnist steps, steps=512"]
    windows = [Window(measure_s=seconds) for seconds in (0.2, 1.0)]
    assert cells("window", *windows) == ["mnist, window.measure_s=0.2", "mnist, window.measure_s=1.0"]
    assert cells("window", windows[0]) == ["mnist"]
    here = maker.ok(maker.cell(), 1)
    assert told(here, on("Other CPU")) == ["mnist, Example CPU @ 2.0 GHz", "mnist, Other CPU"]
    rented = on("Other CPU", gpus=["NVIDIA A", "NVIDIA A"])
    assert told(on("Other CPU"), rented) == ["mnist, Other CPU", "mnist, Other CPU + NVIDIA A"]
    images = Data(name="mnist", digest="f" * 64, source="other images", stand_in=False)
    later = dataclasses.replace(maker.ok(maker.cell(), 1, data=images), started_at="2026-11-21T18:00:00+00:00")
    assert told(here, later) == ["mnist"]  # the earlier one is older
    bert = dataclasses.replace(maker.cell(), model=ModelSpec(name="bert", library=Library.transformers))
    own = dataclasses.replace(maker.cell(), data=DataSpec(name="module"))  # nobody knows whether these are images
    net = ModelSpec(name="Net", library=Library.custom, batch="my.make_batch")
    fed = dataclasses.replace(maker.cell(), model=net)
    found = answered([maker.ok(cell, 100) for cell in (bert, own, fed)])
    assert all("100 samples/s" in each.sentence for each in found)
    assert {each.data for each in found} == {"mnist", "module", "own batches (make_batch)"}


def test_jobs_come_by_their_gains_and_name_settings_with_the_device_where_it_is_another() -> None:
    rates = {("cpu", "fp32"): 100, ("cpu", "bf16"): 170, ("gpu", "fp32"): 5000}
    mlp = [maker.ok(maker.cell("mlp", *words), rate) for words, rate in rates.items()]
    cnn = [maker.ok(maker.cell("cnn", precision=word), rate) for word, rate in (("fp32", 100), ("bf16", 50))]
    found = answered([*cnn, maker.ok(maker.cell("rnn"), 9), *mlp])
    assert [job.name for job in found] == ["mlp train", "cnn train", "rnn train"]
    first, kept, single = found
    names = [(first.setting(gain.first), round(gain.ratio, 2)) for gain in first.gains]
    assert names == [("PyTorch fp32 on GPU", 50), ("PyTorch bf16", 1.7)]
    low, high = first.gain.bounds
    assert low < 50 < high
    assert (kept.best, kept.setting(kept.gain.second)) == (None, "PyTorch fp32")
    assert single.gains == []


def test_the_best_is_by_what_is_wanted():
    def chosen(*figures, limit=None):
        """The jobs of a cell for each (samples/s, seconds of a step), by batch size from 1."""
        made = [
            maker.ok(maker.cell(mode=Mode.infer, batch_size=i), rate, latency_s=[step_s] * 700)
            for i, (rate, step_s) in enumerate(figures, 1)
        ]
        return jobs(cells(made), limit)

    (group,) = chosen(BEATEN, MIDDLE, QUICK, FAST)
    told = [(round(cell.speed), criteria) for _, cell, criteria in choices(group)]
    assert told == [(1000, "throughput"), (200, "latency")]
    (within,) = chosen(BEATEN, MIDDLE, FAST, limit=Limit(10))
    assert within.sentence == "PyTorch fp32 b2 gives 500 samples/s, p50 of a step 10.0 ms."
    assert chosen(BEATEN, MIDDLE, FAST, limit=Limit(1)) == []
    assert {column for column, _ in CRITERIA.values()} <= set(MEASURED)


def test_cells_that_did_different_things_are_not_chosen_between():
    def random(side, pipeline, batch_size, rate):
        data = DataSpec(name="random", pipeline=pipeline)
        cell = maker.cell("resnet18", mode=Mode.infer, data=data, batch_size=batch_size)
        model = dataclasses.replace(cell.model, input_shape=(3, side, side))
        return maker.ok(dataclasses.replace(cell, model=model), rate)

    shapes = [(224, Pipeline.host, 8, 50.0), (224, Pipeline.host, 16, 60.0), (224, Pipeline.device, 16, 70.0)]
    made = [random(*each) for each in [*shapes, (32, Pipeline.host, 16, 900.0)]]
    assert {(group.what, round(group.fastest.speed)) for group in jobs(cells(made))} == {
        ("resnet18 infer, random 3x224x224 host", 60),
        ("resnet18 infer, random 3x224x224 device", 70),
        ("resnet18 infer, random 3x32x32 host", 900),
    }


def test_the_headline_says_what_is_missing_and_what_is_in_doubt() -> None:
    rates = {("mlp", "pytorch"): 1000, ("mlp", "keras"): 1010, ("cnn", "pytorch"): 100, ("cnn", "keras"): 300}
    made = [maker.ok(maker.cell(model, engine=Engine(engine)), rate) for (model, engine), rate in rates.items()]
    made[3] = maker.ok(made[3].cell, 300, warnings=["the loader waited"], settled=False, warmup_total_s=1.0)
    made.insert(0, maker.beside_others(maker.ok(maker.cell("rnn"), 9)))
    made.append(maker.ok(maker.cell("cnn", precision="bf16"), 150))
    made.append(maker.ok(maker.cell(mode=Mode.infer), 5, maker.stand_in))
    gone = {"gpu": "no NVIDIA driver (libnvidia-ml)", "tpu": "no chip"}
    made += [maker.record(maker.cell(device=word), Status.skipped, reason=why) for word, why in gone.items()]
    made += [maker.record(maker.cell("lstm"), Status.failed, reason="raised " + 12 * "slowly ")]
    found = cells(made)
    assert headline.notices(found) == {
        "Missing": "3 of 10 cells: 1 skipped (no NVIDIA driver), 1 skipped (no chip), "
        "1 failed (raised slowly slowly slowly slowly slowly slowly slowly ...).",
        "In doubt": "2 of 7 cells in doubt",
        "Stand-ins": "stand-ins for mnist: only speeds are valid",
    }


@pytest.mark.parametrize("width", [72, 80, 120])
def test_each_cell_has_a_bar_as_long_as_its_speed_on_a_line_that_fits(width) -> None:
    rates = {"fp32": 1_230_000, "bf16": 4_560_000}
    cells = [maker.cell(precision=word, options=Options(channels_last=True, freeze=True)) for word in rates]
    (answer,) = answered([maker.ok(cell, rate) for cell, rate in zip(cells, rates.values(), strict=True)])
    _, _, *lines, _ = (line.plain for line in headline.of_one(answer, width, 12))
    assert max(map(len, lines)) <= width
    assert [line.split("samples/s")[0].split()[-1] for line in lines] == ["4,560,000", "1,230,000"]
    longer, shorter = (line.count("━") for line in lines)
    assert longer / shorter == pytest.approx(4.56 / 1.23, rel=0.35)


def test_several_jobs_are_listed_by_what_became_of_them() -> None:
    rates = {("cnn", "fp32"): 100, ("cnn", "bf16"): 200, ("mlp", "fp32"): 100, ("mlp", "bf16"): 50}
    rates |= {("rnn", "fp32"): 100, ("rnn", "bf16"): 101}
    found = answered([maker.ok(maker.cell(model, precision=word), rate) for (model, word), rate in rates.items()])
    lines = [line.plain for line in headline.of_jobs(found, 80)]
    mark = headline.MARKS["likely"]
    assert lines[0] == "1 of 3 jobs run faster than PyTorch fp32 on CPU (same batch)"
    assert [line.split(headline.BAR)[-1].split()[:2] for line in lines if headline.BAR in line] == [[mark, "2.0x"]]
    assert f"  nothing faster: mlp train: PyTorch bf16 b128 0.50x {mark}" in lines
    assert "  can't tell: rnn train" in lines
    alone = answered([maker.ok(maker.cell(**each), 100) for each in ({"protocol": "steps", "steps": 3}, {})])
    text = "".join(line.plain for line in headline.of_jobs(alone, 80))
    assert "one setting only: mlp train steps" in text
    assert "mlp train: 100/s" in text


@pytest.mark.parametrize(
    ("rates", "speed"), [([300], 300), ([300, 100], 200), ([300, 100, 120], 120), ([1, 9, 2, 3], 2.5)]
)
def test_the_speed_of_a_cell_is_the_median_of_its_processes_and_others_follow(rates, speed) -> None:
    costs = {Device.cpu: Cost(price_per_hour=3.6, power_w=10.0)}
    records = [maker.ok(maker.cell(repeat=i, seed=i % 2), rate) for i, rate in enumerate(rates)]
    (cell,) = cells_of(Process.of(each, costs=costs) for each in records)
    assert cell.speed == cell.number("samples_per_s") == pytest.approx(speed)
    assert cell.num_processes == cell.row["num_processes"] == len(rates)
    assert cell.low < cell.speed < cell.high
    found = [cell.number(name) for name in ("cost_per_million_samples", "energy_j_per_sample", "time_s")]
    assert found == pytest.approx([1000 / speed, 10 / speed, 5 * 60_000 / speed])


def test_confirming_processes_alone_count_where_there_are_enough() -> None:
    planned = [Process.of(maker.at(each, 50)) for each in maker.interleaved({"fp32": 500, "bf16": 9000}, 1)]
    made = map(Process.of, maker.interleaved({"fp32": 1000, "bf16": 2000}, growth=0.01))
    confirming = [replace(each, is_confirming=True, folder="confirmed") for each in made]
    first, second = cells_of([*planned, *confirming])
    assert (first.num_processes, second.num_processes) == (5, 5)
    assert first.speed == pytest.approx(1020, rel=0.001)
    assert first.label == planned[0].label
    assert first.row["repeat"] == planned[0].cell.repeat != first.own_row["repeat"]
    few, _ = cells_of([*planned, *confirming[:4]])
    assert few.num_processes == 3
    assert cells_of(confirming) == []


def test_processes_of_other_machines_or_packages_are_other_cells() -> None:
    record = maker.ok(maker.cell(), 100)
    changes = [{"machine": {"cpu_name": "another"}}, {"versions": {"torch": "3"}}]
    changes += [{"variables": {"A": "1"}}, {"git": {"revision": "1234567"}}]
    *others, git = (replace(record, environment={**record.environment, **change}) for change in changes)
    found = cells([record, maker.at(git, 9), *others])
    assert [cell.num_processes for cell in found] == [2, 1, 1, 1]
    assert len({cell.measured_key for cell in found}) == 4


@pytest.mark.parametrize(
    "change", [{"files": {"model.target": "2"}}, {"files": {"model.weights": "2"}}, {"code": "9"}, {"data": "e"}]
)
def test_processes_of_other_code_weights_or_data_are_an_older_cell_that_counts_nowhere(change) -> None:
    before = maker.ok(maker.cell(repeat=0), 70_000)
    data = maker.stand_in if "data" in change else before.data
    after = maker.ok(maker.cell(repeat=1), 400, data=data)
    after = maker.at(replace(after, environment={**before.environment, **change}), 9)
    for records in ([before, after], [after, before]):
        new, old = sorted(cells(records), key=lambda cell: cell.is_older)
        assert (new.outcome, new.speed, new.num_processes) == ("ok", pytest.approx(400), 1)
        assert (old.outcome, old.speed, old.num_processes, old.is_ok) == ("older", None, 0, False)
        assert (old.row["status"], old.row["samples_per_s"], old.row["reason"]) == ("ok", None, WHY_OLDER)
        rows = sorted(process_rows([new, old]), key=lambda row: row["repeat"])
        assert [row["counts"] for row in rows] == [False, True]
        assert (rows[0]["cell"], rows[0]["reason"]) == (old.row["cell"], WHY_OLDER)
        assert rows[0]["samples_per_s"] == pytest.approx(70_000)
    new, _ = cells_of([Process.of(after), Process.of(before), waiting()])
    assert NOT_RUN in [process.outcome for process in new.processes]


def waiting():
    return Process(cell=maker.cell(repeat=2), name="0" * 12 + "-" + "0" * 8, label="w", record=None)


def test_what_did_not_run_or_failed_belongs_to_the_cell_of_its_settings() -> None:
    ran = Process.of(maker.ok(maker.cell(repeat=0), 100))
    failed = Process.of(maker.record(maker.cell(repeat=1), Status.failed, reason="no"))
    (cell,) = cells_of([waiting(), failed, ran])
    assert (cell.outcome, cell.num_processes, len(cell.processes)) == ("ok", 1, 3)
    (alone,) = cells_of([waiting(), failed])
    assert (alone.outcome, alone.reason, alone.speed, alone.row["samples_per_s"]) == ("failed", "no", None, None)
    (nothing,) = cells_of([waiting()])
    assert nothing.outcome == NOT_RUN


def test_a_cell_of_several_sweeps_has_one_speed_and_a_sweep_where_it_failed_says_so() -> None:
    made = {rate: maker.at(maker.ok(maker.cell(), rate), rate % 7) for rate in (100, 300)}
    here, there = (Process.of(record, folder=str(rate)) for rate, record in made.items())
    first, second = cells_of([here, there])
    assert (first.folder, second.folder) == ("100", "300")
    assert first.speed == second.speed == pytest.approx(200)
    failed = Process.of(maker.record(maker.cell(), Status.failed, reason="no"), folder="failed")
    assert [cell.outcome for cell in cells_of([here, there, failed])] == ["ok", "ok", "failed"]
