import dataclasses

import pytest

from accelbench.answers.headline import headline
from accelbench.answers.precisions import worth
from accelbench.schema.serialize import plain
from accelbench.schema.vocab import Engine, Mode, Status
from fakes import make_ceilings
from report.conftest import ENVIRONMENT

PROBED = "In the probe of matrix products {} is {} times as fast as {} ({} against {}"
LOW = PROBED.format("fp32", "10.0", "bf16", "200", "20.0 GFLOP/s).")
HIGH = PROBED.format("bf16", "4.50", "fp32", "900", "200 GFLOP/s).")
EQUAL = "With the same engine and batch, "
IN = "in 1 of 1 pair"
LOSS = f"{EQUAL}fp32 is % times as fast as bf16 {IN} (1 likely)."
GAIN = f"{EQUAL}bf16 is 4.00 times as fast as fp32 {IN} (1 likely)."


@pytest.mark.parametrize(
    ("rate", "probed", "said"),
    [
        (50, 20e9, f"{LOSS.replace('%', '20.0')} {LOW}"),
        (4000, 9e11, f"{GAIN} {HIGH}"),
        (500, None, LOSS.replace("%", "2.00")),
        (4000, -9e11, GAIN),  # fp32 was probed beside other load
        (1010, None, f"{EQUAL}can't tell {IN}."),
    ],
)
def test_what_a_precision_is_worth_is_said_with_its_reason(cells, maker, rate, probed, said) -> None:
    environment = dict(ENVIRONMENT)
    if probed:
        rates = {"fp32": 2e11, "bf16": abs(probed)}
        how, disturbed = dict.fromkeys(rates, "matmul"), {"fp32": "other load"} if probed < 0 else {}
        environment["ceilings"] = plain(make_ceilings(flops_per_s=rates, how=how, disturbed=disturbed))
    made = [maker.ok(maker.cell(precision=word), speed) for word, speed in (("fp32", 1000), ("bf16", rate))]
    found = cells([dataclasses.replace(each, environment=environment) for each in made])
    assert worth(found) == said


@pytest.fixture
def on(maker):
    """Records of rates, by model, device and precision, on a machine."""

    def on(name, rates, **more):
        machine = {**ENVIRONMENT["machine"], "cpu_name": name}
        made = [maker.ok(maker.cell(*of.split(), **more), rate) for of, rate in rates.items()]
        return [dataclasses.replace(each, environment={**ENVIRONMENT, "machine": machine}) for each in made]

    return on


GAIN_OF = {"mlp cpu fp32": 1000, "mlp cpu bf16": 2000}


def test_no_sentence_about_a_precision_covers_pairs_that_differ(cells, on) -> None:
    """Two machines, gains beside losses and what can't be told, and another device."""

    def said(*records) -> list[str]:
        return worth(cells(sum(records, []))).splitlines()

    gain, slower = on("A", GAIN_OF), on("B", GAIN_OF | {"mlp cpu bf16": 100})
    assert said(gain, slower) == [
        f"{EQUAL[:-2]} (A), bf16 is 2.00 times as fast as fp32 {IN} (1 likely).",
        f"{EQUAL[:-2]} (B), fp32 is 10.0 times as fast as bf16 {IN} (1 likely).",
    ]
    others = {"cnn cpu fp32": 1000, "cnn cpu bf16": 100, "rnn cpu fp32": 1000, "rnn cpu bf16": 1010}
    assert said(gain, on("A", others)) == [
        f"{EQUAL}bf16 is 2.00 times as fast as fp32 in 1 of 3 pairs, fp32 is 10.0 times as fast as bf16 in 1, "
        "can't tell in 1 (2 likely).",
    ]
    gpu = {"mlp gpu fp32": 1000, "mlp gpu bf16": 9000}
    assert [line.partition(",")[0] for line in said(gain, on("A", gpu))] == [
        f"{EQUAL[:-2]} on the cpu",
        f"{EQUAL[:-2]} on the gpu",
    ]


def test_the_headline_says_what_is_missing_and_what_is_in_doubt(cells, maker) -> None:
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
    lines = headline(found, "Twice as fast as published.")
    assert {line.topic: line.text for line in lines} == {
        "Studies": "Twice as fast as published.",
        "Missing": "3 of 10 cells: 1 skipped (no NVIDIA driver), 1 skipped (no chip), "
        "1 failed (raised slowly slowly slowly slowly slowly slowly slowly ...).",
        "In doubt": "Numbers of 2 of 7 measured cells are in doubt (1 ran beside other programs, 1 had a warning of "
        "the engine or model, 1 had not settled). "
        "Stand-ins were measured instead of mnist: speeds hold for data of these shapes, accuracies don't.",
        "Precision": f"{EQUAL}bf16 is 1.50 times as fast as fp32 in 1 of 1 pair (1 likely).",
    }
