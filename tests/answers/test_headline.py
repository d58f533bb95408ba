import dataclasses
import re

import pytest

from accelbench.answers.headline import headline
from accelbench.answers.precisions import worth
from accelbench.answers.sentences import answers
from accelbench.devices.cpu import INSTRUCTION_SETS
from accelbench.schema.serialize import plain
from accelbench.schema.vocab import Engine, Mode, Protocol, Status
from fakes import make_ceilings
from report.conftest import ENVIRONMENT
from report.pictures.samples import served

NONE, UNITS = "This CPU has AVX2 and no bf16 units", "This CPU has bf16 units (amx_bf16)"
PROBED = "n the probe of matrix products {} is {} times as fast as {} ({} against {}"
LOW = PROBED.format("fp32", "10.0", "bf16", "200", "20.0 GFLOP/s)")
HIGH = PROBED.format("bf16", "4.50", "fp32", "900", "200 GFLOP/s)")
GPU_RATE = PROBED.format("bf16", "45,000", "fp32", "9,000", "0.200 TFLOP/s)")
BEST, EQUAL = "With the fastest setting of each, bf16 is {} than fp32 in {}.", "With the same engine and batch, "
NOT, WORTH = (f"{BEST.format(word, 'mlp training')}" for word in ("slower", "faster"))
IN = "in 1 of 1 pair"
LOSS = f"{NOT} {EQUAL}fp32 is % times as fast as bf16 {IN} (1 likely)."
GAIN = f"{WORTH} {EQUAL}bf16 is 4.00 times as fast as fp32 {IN} (1 likely)."
FASTEST = "With the fastest setting of each"
UNTOLD = "it can't be told whether bf16 or fp32 is faster in"


@pytest.mark.parametrize(
    ("rate", "sets", "probed", "said"),
    [
        (50, "avx2", 20e9, f"{LOSS.replace('%', '20.0')} {NONE}, and i{LOW}."),
        (4000, "avx2 amx_bf16", 9e11, f"{GAIN} {UNITS}, and i{HIGH}."),
        (4000, "", 9e15, f"{GAIN} I{GPU_RATE}."),
        (500, "amx_bf16", 20e9, f"{LOSS.replace('%', '2.00')} {UNITS}, but i{LOW}."),
        (500, "", None, LOSS.replace("%", "2.00")),
        (4000, "", -9e11, GAIN),  # fp32 was probed beside other load
        (1010, "avx2", 20e9, f"{FASTEST}, {UNTOLD} mlp training. {EQUAL}can't tell {IN}."),
    ],
)
def test_what_a_precision_is_worth_is_said_with_its_reasons(cells, maker, rate, sets, probed, said) -> None:
    assert set(sets.split()) <= set(INSTRUCTION_SETS)
    environment = {**ENVIRONMENT, "machine": {**ENVIRONMENT["machine"], "instruction_sets": sets}}
    if probed:
        rates = {"fp32": 2e11, "bf16": abs(probed)}
        how, disturbed = dict.fromkeys(rates, "matmul"), {"fp32": "other load"} if probed < 0 else {}
        environment["ceilings"] = plain(make_ceilings(flops_per_s=rates, how=how, disturbed=disturbed))
    made = [maker.ok(maker.cell(precision=word), speed) for word, speed in (("fp32", 1000), ("bf16", rate))]
    found = cells([dataclasses.replace(each, environment=environment) for each in made])
    assert worth(answers(found), found) == said


@pytest.mark.parametrize(
    ("capability", "why"),
    [("9.0", " This GPU has tensor cores for bf16 and none for fp32."), ("7.5", ""), ("unknown", ""), (None, "")],
)
def test_a_gpus_tensor_cores_are_a_reason(cells, maker, capability, why) -> None:
    machine = {**ENVIRONMENT["machine"], "instruction_sets": "amx_bf16", "gpus": ["NVIDIA X"]}
    environment = {**ENVIRONMENT, "machine": {**machine, "gpu_details": [{"compute_capability": capability}]}}
    made = [maker.ok(maker.cell("mlp", "gpu", word), speed) for word, speed in (("fp32", 1000), ("bf16", 4000))]
    found = cells([dataclasses.replace(each, environment=environment) for each in made])
    assert worth(answers(found), found) == GAIN + why


@pytest.fixture
def on(maker):
    """Records of rates, by model, device and precision, on a machine."""

    def on(name, rates, sets="amx_bf16", **more):
        machine = {**ENVIRONMENT["machine"], "cpu_name": name, "instruction_sets": sets}
        made = [maker.ok(maker.cell(*of.split(), **more), rate) for of, rate in rates.items()]
        return [dataclasses.replace(each, environment={**ENVIRONMENT, "machine": machine}) for each in made]

    return on


GAIN_OF = {"mlp cpu fp32": 1000, "mlp cpu bf16": 2000}


def test_no_sentence_about_a_precision_covers_pairs_that_differ(cells, on) -> None:
    """Two machines, gains beside losses and what can't be told, another device, and batches of one side alone."""

    def said(*records) -> list[str]:
        found = cells(sum(records, []))
        return worth(answers(found), found).replace(f" {EQUAL[:-2]}", f"\n{EQUAL[:-2]}").splitlines()

    gain, slower = on("A", GAIN_OF), on("B", GAIN_OF | {"mlp cpu bf16": 100}, "avx2")
    assert said(gain, slower)[::2] == [WORTH.replace("each", "each (A)"), NOT.replace("each", "each (B)")]
    others = {"cnn cpu fp32": 1000, "cnn cpu bf16": 100, "rnn cpu fp32": 1000, "rnn cpu bf16": 1010}
    assert said(gain, on("A", others)) == [
        f"{NOT.replace('mlp', 'cnn')[:-1]}; bf16 is faster than fp32 in mlp training; {UNTOLD} rnn training.",
        f"{EQUAL}bf16 is 2.00 times as fast as fp32 in 1 of 3 pairs, fp32 is 10.0 times as fast as bf16 in 1, "
        "can't tell in 1 (2 likely).",
    ]
    keras, gpu = on("A", {"mlp cpu fp32": 5000}, engine=Engine.keras), {"mlp gpu fp32": 1000, "mlp gpu bf16": 9000}
    assert said(gain, on("A", gpu), keras)[::2] == [
        f"{FASTEST} on the cpu, fp32 with keras, which bf16 was not measured with, is faster in mlp training.",
        WORTH.replace("each", "each on the gpu"),
    ]
    larger = on("A", {"mlp cpu fp32": 6000}, batch_size=512)
    untold = f"{FASTEST}, bf16 and fp32 were not compared at the fastest batch size in mlp training."
    assert said(gain, larger)[0] == untold
    text = "Training: mlp: fp32 (3.00 times as fast as the next, batch 512 against 128, likely)."
    assert headline(answers(found := cells(gain + larger)), found)[0].text == text
    fitted = on("A", {"rnn cpu fp32": 1000, "rnn cpu bf16": 2000}, protocol=Protocol.fit)
    assert list(headline(answers(found := cells(gain + fitted)), found)[0].networks) == ["mlp", "rnn (fit)"]


def test_each_answer_about_a_network_is_named_and_same_is_a_result(cells, maker, on) -> None:
    tied = {f"n{i} cpu {word}": 9 for i in range(20) for word in ("fp32", "bf16")}
    last = {f"z cpu {word}": 9 for word in ("fp32", "bf16")}
    found = cells(
        [
            *maker.interleaved({"fp32": 1000, "bf16": 1001}),
            *on("B", GAIN_OF),
            *on("A", tied),
            *on("A", last, mode=Mode.infer),
        ]
    )
    text, unshown = headline(answers(found), found)[0].text.splitlines()
    assert unshown == "Inference: 1 network, see the report."
    assert text.startswith(
        "Training: mlp (B): bf16 (2.00 times as fast as the next, likely); mlp (Example CPU @ 2.0 GHz):"
    )
    untold = ", ".join(sorted(f"n{i}" for i in range(13)))
    assert text.endswith(f" bf16 and fp32 are equally fast; can't tell for {untold}; and 7 more.")


def test_the_headline_says_what_is_fastest_what_is_missing_and_what_is_in_doubt(cells, maker) -> None:
    """Networks in order of importance; devices only where they differ; a doubt of an answer before others."""
    rates = {("mlp", "pytorch"): 1000, ("mlp", "keras"): 1010, ("cnn", "pytorch"): 100, ("cnn", "keras"): 300}
    made = [maker.ok(maker.cell(model, engine=Engine(engine)), rate) for (model, engine), rate in rates.items()]
    made[3] = maker.ok(made[3].cell, 300, warnings=["the loader waited"], settled=False, warmup_total_s=1.0)
    beside = maker.beside_others(maker.ok(maker.cell("rnn"), 9))
    made = [
        beside,
        *made,
        maker.ok(maker.cell("cnn", precision="bf16"), 150),
        maker.ok(maker.cell(mode=Mode.infer), 5, maker.stand_in),
    ]
    gone = {"gpu": "no NVIDIA driver (libnvidia-ml)", "tpu": "no chip"}
    made += [maker.record(maker.cell(device=word), Status.skipped, reason=why) for word, why in gone.items()]
    made += [maker.record(maker.cell("lstm"), Status.failed, reason="raised " + 12 * "slowly ")]
    found = cells(made)
    lines = headline(answers(found), found, "Twice as fast as published.")
    rows = [[name, *row[0][1:]] for name, row in lines[0].networks.items()]
    assert (lines[0].heads, rows) == (
        ["Training"],
        [
            ["cnn", "fp32 with keras b128 !", "300 samples/s", "2.00x the next: bf16 with pytorch, likely"],
            ["mlp", "fp32 with keras b128", "1,010 samples/s", "1.01x the next: fp32 with pytorch, can't tell"],
        ],
    )
    assert {line.topic: line.text for line in lines} == {
        "Fastest": "Training: cnn: fp32 with keras (2.00 times as fast as the next, likely, a number in doubt); "
        "can't tell for mlp.",
        "Studies": "Twice as fast as published.",
        "Missing": "3 of 10 cells: 1 on gpu (no NVIDIA driver), 1 on tpu (no chip), "
        "1 on cpu (failed: raised slowly slowly slowly slowly slowly slowly slowly ...).",
        "In doubt": "Numbers of 2 of 7 measured cells are in doubt (1 had a warning of the engine or model, 1 had not "
        "settled, 1 ran beside other programs; 1 of them for several reasons): cnn-cpu-fp32-b128-train-keras, "
        "rnn-cpu-fp32-b128-train. "
        "Stand-ins were measured instead of mnist: speeds hold for data of these shapes, accuracies don't.",
        "Precision": f"{FASTEST}, fp32 with keras, which bf16 was not measured with, is faster in cnn training (a "
        f"number in doubt). {EQUAL}bf16 is 1.50 times as fast as fp32 in 1 of 1 pair (1 likely).",
    }


def test_the_fastest_settings_are_a_line_with_what_is_served_and_the_times_to_a_target(cells, maker) -> None:
    """It is the first of at most five; the sentences on other speeds follow the networks, a table on the page."""
    compared = [maker.ok(maker.cell(precision=word), rate) for word, rate in (("fp32", 1000), ("bf16", 3000))]
    found = cells([*compared, *served(maker), *served(maker, "mlp")])
    line = headline(answers(found), found)[0]
    first, cnn, mlp = line.text.splitlines()
    assert line.others == f"{cnn}\n{mlp}"
    assert re.match(r"cnn infer.*: fp32, batches of at most 8: 200 to 240 requests/s with p99 at most 50 ms \(", cnn)
    assert (mlp.split()[0], first) == ("mlp", "Training: mlp: bf16 (3.00 times as fast as the next, likely).")
    alone = headline([], cells(served(maker)))[0]
    assert (alone.text, dict(alone.networks)) == (cnn, {})
