import dataclasses
from pathlib import Path

import pytest

from accelbench.compare.command_words import command_words
from accelbench.report import build
from accelbench.report.answers import answers
from accelbench.report.page import compose
from accelbench.report.read import read as read_sweep
from accelbench.schema.cell import Options, Window
from accelbench.schema.conditions import SystemSeries
from accelbench.schema.measurement import Block
from accelbench.schema.vocab import Library, Mode
from accelbench.schema.workload import DataSpec, ModelSpec
from accelbench.settings.compose import one_cell


@pytest.fixture
def answered(tmp_path: Path, maker):
    return lambda records: answers([read_sweep(maker.suite(tmp_path, records))])


def test_the_sentence_says_what_is_fastest_by_how_much_and_how_sure(answered, maker) -> None:
    cells = [maker.cell(precision=precision, batch_size=size) for precision in ("fp32", "bf16") for size in (32, 128)]
    (answer,) = answered([maker.ok(cell, rate) for cell, rate in zip(cells, (80, 100, 300, 400), strict=True)])
    assert (answer.what, answer.data) == ("mlp, training", "mnist")
    assert answer.sentence == (
        "bf16, batch 128 is fastest here, 400 images/s, median step 432 ms; "
        "fp32, batch 128 takes 4.0 times as long (likely)."
    )
    assert [each.text for each in answer.candidates] == ["bf16, batch 128", "fp32, batch 128"]
    assert [each.verdict for each in answer.candidates] == ["fastest", "4.0 times as long, likely"]
    first, second = answer.candidates
    assert first.share / second.share == pytest.approx(4.0, rel=0.01)
    assert first.low_share < first.share < first.high_share <= 1.0


def test_a_step_at_another_speed_than_the_rate_is_marked(answered, maker) -> None:
    records = [maker.ok(maker.cell(batch_size=size), 1000, latency_s=[0.5 * size] * 700) for size in (8, 16)]
    (answer,) = answered(records)
    assert "median step 4,000 ms (which disagrees with the rate);" in answer.sentence


def test_near_speeds_of_single_processes_cant_be_told_apart_and_the_command_decides(answered, maker) -> None:
    model = ModelSpec(name="mlp", args={"widths": [512, 512, 512, 512], "dropout": 0.45})  # as conf/ has it
    cells = [dataclasses.replace(maker.cell(precision=precision), model=model) for precision in ("fp32", "bf16")]
    (answer,) = answered([maker.ok(cell, rate) for cell, rate in zip(cells, (1000, 1010), strict=True)])
    assert "bf16, batch 128 measured fastest, 1,010 images/s" in answer.sentence
    assert "fp32, batch 128 is 0.99 % slower, but can't tell: the intervals overlap." in answer.sentence
    assert answer.command == (
        "accelbench compare --run 'model=mlp data=mnist mode=train precision=bf16 batch_size=128' "
        "'model=mlp data=mnist mode=train precision=fp32 batch_size=128'"
    )


def test_what_is_sure_needs_no_command(answered, maker) -> None:
    records = []
    for repeat in range(5):
        for side, (precision, rate) in enumerate((("fp32", 1000), ("bf16", 2000))):
            done = maker.ok(maker.cell(precision=precision, repeat=repeat), rate * (1 + repeat / 1000))
            started_at = f"2026-11-20T18:{2 * repeat + side:02}:00+00:00"
            records.append(dataclasses.replace(done, started_at=started_at))
    (answer,) = answered(records)
    assert answer.sentence.endswith("fp32, batch 128 takes 2.0 times as long (sure).")
    assert answer.command is None
    assert len(answer.candidates[0].names) == 5


def test_how_far_the_output_is_from_fp32s_is_said_of_lower_precisions(answered, maker) -> None:
    cells = [(maker.cell(precision=precision), rate) for precision, rate in (("bf16", 200), ("fp32", 100))]
    (answer,) = answered([maker.ok(cell, rate, output_error=0.0123) for cell, rate in cells])
    assert answer.remark == "Its output differs from fp32's by 1.2 % for two samples."
    (answer,) = answered([maker.ok(cell, rate, output_error=1e-7) for cell, rate in cells])
    assert answer.remark == "Its output differs from fp32's by <0.1 % for two samples."
    (answer,) = answered([maker.ok(cell, 1000 - rate, output_error=0.0123) for cell, rate in cells])
    assert answer.remark == ""


def test_sentences_of_an_answer_stand_apart_in_report_md(tmp_path, maker) -> None:
    maker.suite(tmp_path / "results", [maker.ok(maker.cell(precision="bf16"), 200, output_error=0.0123)])
    text = build.build(tmp_path / "results", tmp_path / "report").with_name("report.md").read_text()
    assert "in full. Its output differs from fp32's by 1.2 % for two samples.\n" in text


def test_that_no_larger_batch_was_tried_is_said_only_if_none_was(tmp_path, maker) -> None:
    """Of any setting, whatever became of it: a larger batch may have run out of memory."""

    def said(*records):
        sweep = read_sweep(maker.suite(tmp_path / str(len(records)), records))
        (answer,) = answers([sweep])
        return answer.larger_batch(sweep.cells)

    measured = [maker.ok(maker.cell(batch_size=size), rate) for size, rate in ((8, 100), (32, 400))]
    assert said(*measured) == "No batch above 32 was tried: a larger one may be faster."
    failed = maker.record(maker.cell(precision="bf16", batch_size=64), status="oom", reason="no memory")
    assert said(*measured, failed) == ""
    assert said(maker.ok(maker.cell(), 1000)) == ""  # one size is no sweep of sizes


def test_a_single_setting_is_no_choice(answered, maker) -> None:
    (answer,) = answered([maker.ok(maker.cell(), 1000)])
    assert (
        answer.sentence
        == "fp32, batch 128 gives 1,000 images/s, median step 173 ms. It is the only setting that was measured in full."
    )
    assert (answer.confidence, answer.command, answer.num_more) == (None, None, 0)


def test_devices_and_options_are_named_where_they_differ(answered, maker) -> None:
    cells = [maker.cell(), maker.cell(device="xla_cpu"), maker.cell(options=Options(channels_last=True))]
    (answer,) = answered([maker.ok(cell, rate) for cell, rate in zip(cells, (100, 300, 200), strict=True)])
    assert [each.text for each in answer.candidates] == [
        "fp32 on xla_cpu, batch 128",
        "fp32 on cpu with channels_last, batch 128",
        "fp32 on cpu, batch 128",
    ]


def test_of_many_settings_the_slowest_are_counted(answered, maker) -> None:
    words = ("fp32", "bf16", "fp16", "fp64", "bf16_mixed", "fp16_mixed")
    records = [maker.ok(maker.cell(precision=word), 100 * (i + 1)) for i, word in enumerate(words)]
    (answer,) = answered(records)
    assert len(answer.candidates) == 4
    assert answer.num_more == 2


def test_the_command_measures_a_named_network_of_a_library(answered, maker) -> None:
    sgd = {"optimizer": "sgd", "learning_rate": 0.01}  # as conf/ has it
    model = ModelSpec(name="resnet18", library=Library.torchvision, input_shape=(3, 224, 224), num_classes=1000, **sgd)
    data = DataSpec(name="random", pipeline="host")
    cells = [maker.cell(batch_size=size, mode=Mode.infer, data=data) for size in (1, 16)]
    cells = [dataclasses.replace(cell, model=model) for cell in cells]
    (answer,) = answered([maker.ok(cell, rate) for cell, rate in zip(cells, (100, 105), strict=True)])
    assert "model=torchvision model.name=resnet18 mode=infer precision=fp32 batch_size=16" in answer.command


def test_no_command_repeats_a_network_with_other_arguments_than_conf_has(answered, maker) -> None:
    cells = [maker.cell(precision=precision) for precision in ("fp32", "bf16")]
    cells = [dataclasses.replace(cell, model=ModelSpec(name="mlp", args={"widths": [8]})) for cell in cells]
    blocks = [Block(num_steps=1, num_samples=128, seconds=1.0)]
    (answer,) = answered([maker.ok(cell, 1000, blocks=blocks) for cell in cells])
    assert "can't tell: too few blocks for an interval" in answer.sentence
    assert answer.command is None


def in_turns(maker, rates):
    """Five processes of each precision, in turns."""
    for repeat in range(5):
        for side, (precision, rate) in enumerate(rates.items()):
            done = maker.ok(maker.cell(precision=precision, repeat=repeat), rate)
            yield dataclasses.replace(done, started_at=f"2026-11-20T18:{2 * repeat + side:02}:00+00:00")


def test_what_is_surely_the_same_is_not_called_faster(answered, maker) -> None:
    (answer,) = answered(list(in_turns(maker, {"fp32": 1000, "bf16": 1001})))
    assert answer.sentence.startswith("bf16, batch 128 and fp32, batch 128 are equally fast, 1,000 images/s")
    assert answer.candidates[1].verdict == "as fast, sure"
    assert answer.command is None


def test_processes_in_turns_that_decide_nothing_leave_the_lead_as_it_was_measured(answered, maker) -> None:
    records = []
    for repeat, rate in enumerate((1000, 1000, 1010, 300, 300)):
        for side, (precision, each) in enumerate((("fp32", 900), ("bf16", rate))):
            done = maker.ok(maker.cell(precision=precision, repeat=repeat), each)
            records.append(dataclasses.replace(done, started_at=f"2026-11-20T18:{2 * repeat + side:02}:00+00:00"))
    (answer,) = answered(records)
    assert "bf16, batch 128 measured fastest, 1,000 images/s" in answer.sentence
    assert "fp32, batch 128 is 10 % slower, but can't tell: " in answer.sentence


def test_one_setting_on_two_machines_has_an_answer_for_each(answered, maker) -> None:
    here = [maker.ok(maker.cell(precision=word), rate) for word, rate in (("fp32", 100), ("bf16", 200))]
    there = [
        dataclasses.replace(each, environment={"machine": {"cpu_name": "Other CPU"}}, identity="2" * 64)
        for each in (maker.ok(maker.cell(precision=word), rate) for word, rate in (("fp32", 900), ("bf16", 300)))
    ]
    first, second = answered([*here, *there])
    assert (first.data, second.data) == ("mnist, Example CPU @ 2.0 GHz", "mnist, Other CPU")
    assert first.sentence.startswith("bf16, batch 128 is fastest here, 200 images/s")
    assert second.sentence.startswith("fp32, batch 128 is fastest here, 900 images/s")


def test_answers_of_one_name_say_what_tells_them_apart(answered, maker) -> None:
    cells = [
        maker.cell(protocol="steps", steps=steps, precision=word) for steps in (32, 512) for word in ("fp32", "bf16")
    ]
    found = answered([maker.ok(cell, rate) for cell, rate in zip(cells, (1, 2, 4, 8), strict=True)])
    assert [answer.data for answer in found] == ["mnist steps, steps=32", "mnist steps, steps=512"]


def test_samples_are_not_called_images_where_nobody_knows(answered, maker) -> None:
    bert = dataclasses.replace(maker.cell(), model=ModelSpec(name="bert", library=Library.transformers))
    own = dataclasses.replace(maker.cell(), data=DataSpec(name="module"))
    sentences = [answer.sentence for answer in answered([maker.ok(bert, 100), maker.ok(own, 100)])]
    assert all("100 samples/s" in sentence for sentence in sentences)


def test_a_limit_is_a_part_of_the_answer(answered, maker) -> None:
    (answer,) = answered([maker.ok(maker.cell(), 1000)])
    limited = dataclasses.replace(answer, limit_ms=200.0)
    assert limited.sentence.endswith("median step 173 ms. Nothing else is within 200 ms.")


@pytest.mark.parametrize(
    "words",
    [
        "model=mlp mode=infer precision=bf16 batch_size=32",
        "model=cnn mode=train batch_size=8 threads=1 channels_last=true",
        "model=mlp_cifar10 data=cifar10 mode=train data.augment=flip",
        "model=torchvision model.name=resnet18 mode=infer engine=openvino precision=int8 batch_size=16",
        "model=timm model.name=mobilenetv2_100 mode=infer compile=true data.pipeline=device",
        "model=pets_cnn data=cats_vs_dogs mode=infer data.pipeline=jpeg",
        "model=cnn mode=train engine=keras",
        "model=mlp mode=infer engine=keras engine.jit_compile=true engine.steps_per_execution=8",
        "model=mlp mode=infer engine=keras engine.backend=jax",
        "model=mlp mode=infer engine=keras engine.backend=jax engine.jit_compile=false",
        "model=scaling_cnn_small data=random data.pipeline=device mode=infer protocol=steps steps=20 warmup=5",
        "model=custom model.target=torch.nn.Flatten mode=infer model.input_shape=[3,32,32] model.output=any",
        "model=custom model.target=my.Net model.batch=my.make mode=infer",
        "model=custom model.target=my.Net model.batch=my.make model.loss=my.loss model.args.width=64 mode=train "
        "model.batch_args.seq_len=32 model.args.deep=true batch_size=4",
    ],
)
def test_the_words_measure_the_same_cell_again(words) -> None:
    cell, _ = one_cell(words)
    again, _ = one_cell(" ".join(command_words(cell)))
    assert dataclasses.replace(again, suite=cell.suite) == cell


@pytest.mark.parametrize(
    "words",
    [
        "model=timm model.name=resnet18 mode=infer model.input_shape=[3,64,64]",
        "model=timm model.name=resnet18 mode=infer model.weights=pretrained",
        "model=mlp mode=train model.args.widths=[8]",
        "model=mlp mode=train model.learning_rate=0.5",
        "model=mlp mode=train seed=1",
        "model=mlp mode=train protocol=fit",
        "model=custom model.target=my.Net 'model.args.text=two words' mode=infer",
    ],
)
def test_other_cells_have_no_words(words) -> None:
    assert command_words(one_cell(words)[0]) is None


def windowed(maker, results, name, rate, measure_s, day="2026-11-20", **changes):
    """A sweep of two precisions in a folder of this name."""
    cells = [
        maker.cell("cnn", precision=word, suite=name, mode=Mode.infer, window=Window(measure_s=measure_s), **changes)
        for word in ("fp32", "bf16")
    ]
    records = [maker.ok(cell, rate) for cell in cells]
    dated = [dataclasses.replace(record, started_at=f"{day}T18:00:00+00:00") for record in records]
    return read_sweep(maker.suite(results, dated, study=None))


def test_several_sweeps_with_one_question_each_say_which_they_are(tmp_path, maker) -> None:
    sweeps = [
        windowed(maker, tmp_path, "2026-11-20_18-00-00-adhoc", 64_200.0, 0.2),
        windowed(maker, tmp_path, "quick", 2_440_000.0, 1.0, day="2026-11-21"),
        windowed(maker, tmp_path, "other", 10.0, 2.0, batch_size=4),
    ]
    found = answers(sweeps)
    assert [answer.data for answer in found] == [
        "mnist, 2026-11-20_18-00-00-adhoc, window.measure_s=0.2",
        "mnist, quick, 2026-11-21, window.measure_s=1",
        "mnist, other, 2026-11-20, window.measure_s=2",
    ]
    (alone,) = answers(sweeps[:1])
    assert alone.data == "mnist"


def test_sweeps_that_are_one_answer_are_not_told_apart(tmp_path, maker) -> None:
    found = answers([windowed(maker, tmp_path, name, 100.0, 1.0) for name in ("a", "b")])
    assert [answer.data for answer in found] == ["mnist"]


@pytest.mark.parametrize(
    ("rates", "told"),
    [
        ((64_200.0, 2_440_000.0), "up to 38 times as fast as another time: don't trust differences below that."),
        ((100.0, 130.0), "up to 1.3 times as fast as another time: don't trust differences below that."),
        ((100.0, 110.0), "Don't trust small differences."),
        ((100.0,), "Don't trust small differences."),
    ],
)
def test_how_large_a_difference_says_nothing_on_a_noisy_machine(tmp_path, maker, rates, told) -> None:
    sweeps = []
    for place, rate in enumerate(rates):
        sweep = windowed(maker, tmp_path, f"s{place}", rate, 1.0 + place)
        series = SystemSeries(started_boot_s=0.0, t_s=[5.0], values={"other_cpu_utilization_percent": [80.0]})
        cells = []
        for each in sweep.cells:
            measured = dataclasses.replace(each.record.measurement, steady_boot_s=(1.0, 9.0))
            record = dataclasses.replace(each.record, system=series, measurement=measured)
            cells.append(dataclasses.replace(each, record=record))
        sweeps.append(dataclasses.replace(sweep, cells=cells))
    noise = compose(sweeps).noise
    assert noise.startswith(f"Noisy machine: {2 * len(rates)} of {2 * len(rates)} processes")
    assert noise.endswith(told)
    assert not compose([windowed(maker, tmp_path, "quiet", 100.0, 1.0)]).noise
