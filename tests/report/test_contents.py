import dataclasses
import re

import pytest

from accelbench.report import build
from accelbench.report.build import metrics
from accelbench.report.contents import compose
from accelbench.report.overview import picture_of
from accelbench.schema.cell import Engine, KerasSettings, Mode, Options, Status
from accelbench.schema.measurement import Work
from report.conftest import MNIST, served, texts, working


def test_a_cell_is_a_row_of_cells_csv_however_many_processes_it_has(read, maker):
    ok = [maker.ok(maker.cell(repeat=i), 1, data=maker.stand_in) for i in range(3)]
    failed = maker.record(maker.cell(repeat=3), Status.failed, reason="now and then")
    skipped = [maker.record(maker.cell(device="gpu", repeat=i), Status.skipped, reason="no GPU") for i in range(2)]
    sweep = read([*ok, failed, *skipped])
    page = compose([sweep])
    assert (len(sweep.cells), page.counts) == (2, {"ok": 1, "skipped": 1})
    assert page.stand_ins["mnist"].startswith("NOT MNIST: a stand-in (a drawn digit for each class) was measured.")
    assert [metrics(page)[word] for word in ("ok", "skipped", "failed")] == [1, 1, 0]
    # What was skipped is no stand-in, and has no time.
    skipped = maker.record(maker.cell(device="gpu"), Status.skipped, reason="no GPU", data=maker.stand_in)
    skipped = dataclasses.replace(skipped, started_at="2026-11-19T18:00:00+00:00")
    page = compose([read([maker.ok(maker.cell(), 1), skipped])])
    assert (page.stand_ins, page.when) == ({}, ("2026-11-20 18:00", "2026-11-20 18:00"))
    page = compose([read([skipped])])
    assert (page.stand_ins, page.when, "- \n" in build.markdown(page, "")) == ({}, None, False)


def test_each_machine_is_counted_and_named_with_its_processes(read, maker):
    records = [maker.ok(maker.cell(batch_size=size), 1) for size in (1, 2, 4)]
    newer = records[1].environment["machine"] | {"platform": "Linux-9.9"}  # of Python alone: no other machine
    records[1] = dataclasses.replace(records[1], environment=records[1].environment | {"machine": newer})
    assert compose([read(records)]).machines == ["Example CPU @ 2.0 GHz, 2 cores"]
    other = {"machine": {"cpu_name": "Other", "gpus": ["Example GPU"]}, "code": "abc123"}
    page = compose([read([dataclasses.replace(records[0], environment=other), *records[1:]])])
    assert page.machines[0] == "Other, Example GPU"
    assert page.environments[0] == ("machine (2 of 3 processes differ)", "cpu name Other, gpus Example GPU")
    assert ("code", "abc123") in page.environments
    assert "What is missing, and why" not in build.markdown(page, "")
    keras = maker.ok(maker.cell(engine=Engine.keras), 1)  # whose code is another one
    keras = dataclasses.replace(keras, environment=keras.environment | {"code": "of Keras"})
    assert "differ" not in str(compose([read([records[0], keras])]).environments)


NO_GPU = "no NVIDIA driver"


def rated(maker, model="mlp", data=MNIST, **rates):
    return [maker.ok(maker.cell(model, precision=word), rate, data=data) for word, rate in rates.items()]


def jobs(maker, num):
    """Records of jobs, each with a gain of its own in bf16 and an option in doubt that can't be told."""
    records = []
    for i in range(num):
        for word, options, rate in (("fp32", {}, 1000), ("bf16", {}, 1500 + 100 * i), ("fp32", {"freeze": True}, 1030)):
            cell = maker.cell(f"net{i}", precision=word, options=Options(**options), mode=Mode.infer)
            doubts = ["the loader waited"] if options else []
            records.append(maker.ok(cell, rate, warnings=doubts))
    return records


def test_its_title_says_what_was_found_and_the_line_below_how_sure_that_is(read, tmp_path, maker):
    def first_texts(records):
        page = build.html(compose([read(records)]), tmp_path)
        title, about = re.search(r"<h1>(.*?)</h1>.*?<p class=\"about\">(.*?)</p>", page, re.DOTALL).groups()
        return re.sub("<.*?>", "", title), about

    said = {
        "Change a setting and mlp train runs 2.0 times as fast": rated(maker, fp32=100, bf16=200, fp16=105),
        "Change a setting and 2 of 2 jobs run 1.5 to 1.6 times as fast": jobs(maker, 2),
        "Keep what you run: nothing is faster for mlp train": rated(maker, fp32=100, bf16=50),
        "No setting is known to be faster for mlp train": rated(maker, fp32=100, bf16=105),
        "mlp train: 100 samples/s": rated(maker, fp32=100),
        "2 jobs with one setting each": [maker.ok(maker.cell(model), 1) for model in ("mlp", "cnn")],
        "Nothing was measured": [maker.record(maker.cell(device="gpu"), Status.skipped, reason=NO_GPU)],
    }
    assert [first_texts(records)[0] for records in said.values()] == list(said)
    assert re.fullmatch(r"cnn infer, mnist.*: 200 to 2\d\d requests/s", first_texts(served(maker))[0])
    one = rated(maker, fp32=100, bf16=200)  # the line below names the reference, how sure it is, and stand-ins
    assert first_texts(one)[1] == "against PyTorch fp32 on CPU, same batch; likely: one run each"
    drawn = rated(maker, data=maker.stand_in, bf16=1, fp32=2)
    assert first_texts([*drawn, *rated(maker, "cnn", fp32=1, bf16=2)])[1] == (
        "against what was asked for first, same batch; likely: one run each; "
        "stand-in data: speeds are valid, accuracies aren&#39;t"
    )


def test_a_row_has_each_setting_with_its_figures_and_how_to_measure_it_again(read, maker):
    gpu = maker.ok(maker.cell(device="gpu", options=Options(compile=True)), 5000)
    keras = maker.ok(maker.cell(engine=Engine.keras, keras=KerasSettings()), 80, warnings=["the loader waited"])
    page = compose([read([*rated(maker, fp32=100, bf16=200), gpu, keras])])
    (row,) = picture_of(page.jobs, "results")["jobs"]
    names = [(gain["setting"], gain["kind"], gain["times"], gain["word"]) for gain in row["gains"]]
    assert names == [
        ("PyTorch fp32 on GPU, compile", "PyTorch on GPU", "50", "likely"),
        ("PyTorch bf16", "PyTorch", "2.0", "likely"),
        ("Keras fp32", "Keras", "0.80", "likely"),
    ]
    best, second, last = row["gains"]
    assert (row["name"], row["model"], last["today"]["setting"]) == ("mlp train", "mlp", "PyTorch fp32")
    assert (second["speed"], second["today"]["speed"], second["batch"]) == ("200 samples/s", "100 samples/s", 128)
    assert second["command"] == "accelbench model=mlp precision=bf16"
    assert (last["doubts"], best["doubts"]) == (["the loader waited"], [])
    assert re.match(r"1\.\d\d to 2\.\d\d$", second["within"])


def test_tiles_and_questions_have_their_figures_and_the_bar_has_all_cells(read, maker):
    records = rated(maker, fp32=100, bf16=300) + rated(maker, "cnn", fp32=100, bf16=50)
    skipped = [maker.record(maker.cell(device=word), Status.skipped, reason=NO_GPU) for word in ("gpu", "tpu")]
    page = compose([read([*records, *skipped, maker.record(maker.cell("rnn"), Status.failed, reason="no")])])
    assert page.tiles == [("bf16 0.50 to 3.0x", "over fp32 in 2 of 2 pairs, likely")]
    assert page.measured == {"cpu": 4}
    assert sum(page.unmeasured.values()) == 3
    (precision,) = page.questions
    assert (precision.title, precision.sentence) == (
        "Which precision?",
        "bf16 is 0.500 to 3.00 times as fast as fp32 in 2 of 2 pairs (2 likely).",
    )
    assert [(line.name, line.text) for line in precision.lines] == [
        ("bf16: mlp train, PyTorch fp32 b128", "3.00x, likely"),
        ("bf16: cnn train, PyTorch fp32 b128", "0.500x, likely"),
    ]
    low, high = precision.lines[0].bounds
    assert low < 3 < high


def asked(sweep):
    return {question.title: question for question in compose([sweep]).questions}


def test_the_limit_and_the_phases_have_a_line_for_each_job(read, maker):
    assert asked(read([maker.ok(maker.cell(), 100)])) == {}
    records = [working(maker, "mlp"), working(maker, "cnn", work=Work(flops=10**12, bytes=10**6, num_operators=9))]
    found = asked(read(records))
    limit = found["How near to the limit?"]
    assert limit.sentence.startswith("The fastest cells reach 50 to 3")
    assert limit.lines[0].value > 100
    time = found["Where does the time go?"]
    assert time.sentence.startswith("Waiting for data, copying and the framework take 20 % of a step")
    assert time.lines[0].probe["forward"] == pytest.approx(60)


def test_requests_have_a_section_for_each_workload_with_the_probes_of_each_setting(read, maker):
    question = asked(read(served(maker)))["How many requests per second?"]
    assert question.sentence.startswith("PyTorch fp32, batches of at most 8: ")
    assert re.search(r": 200 to 2[0-4]\d requests/s with p99 at most 50 ms \(sure\)", question.sentence)
    names = [line.name.partition(", ")[2] for line in question.lines]
    assert names == ["batches of at most 8"] * 5 + ["one at a time"] * 2
    # Of two processes of one cell, the figures are of the one that passed.
    assert [line.probe["request_p99_ms"] for line in question.lines[1:3]] == [52, 40]
    shown, *_ = texts(question.table)
    assert {"requests/s: from", "to", "p99 (ms)"} <= set(shown)
    assert shown["busy (%)"] == "62.5"
    assert "J/request" not in shown
    several = asked(read([*served(maker), *served(maker, "mlp")]))
    assert [title.partition("? ")[2].split()[0] for title in several] == ["cnn", "mlp"]
