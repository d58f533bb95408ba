import dataclasses

import pytest

from accelbench.answers.headline import headline
from accelbench.answers.precisions import worth
from accelbench.answers.sentences import answers
from accelbench.devices.cpu import INSTRUCTION_SETS
from accelbench.schema.vocab import Engine, Mode, Status
from fakes import make_ceilings
from report.conftest import ENVIRONMENT

NONE, UNITS = "this CPU has AVX2 and no bf16 units", "this CPU has bf16 units (amx_bf16)"
LOW, HIGH = (f"matrix products reached {rate} GFLOP/s in bf16 and 200 in fp32" for rate in ("20.0", "900"))


@pytest.mark.parametrize(
    ("rate", "sets", "probed", "said"),
    [
        (50, "avx2", 20e9, f"bf16 does not pay: fp32 is 20.0 times as fast as bf16 (%): {NONE} and {LOW}."),
        (4000, "avx2 amx_bf16", 9e11, f"bf16 pays: it is 4.00 times as fast as fp32 (%): {UNITS} and {HIGH}."),
        (500, "amx_bf16", 20e9, f"bf16 does not pay: fp32 is 2.00 times as fast as bf16 (%): {LOW}, although {UNITS}."),
        (500, "", None, "bf16 does not pay: fp32 is 2.00 times as fast as bf16 (%)."),
        (1010, "avx2", 20e9, "No difference between bf16 and fp32 can be told (mlp train b128, can't tell)."),
    ],
)
def test_what_a_precision_is_worth_is_said_with_its_reasons(cells, maker, rate, sets, probed, said) -> None:
    assert set(sets.split()) <= set(INSTRUCTION_SETS)
    environment = {**ENVIRONMENT, "machine": {**ENVIRONMENT["machine"], "instruction_sets": sets}}
    if probed:
        rates = {"fp32": 2e11, "bf16": probed}
        environment["ceilings"] = make_ceilings(flops_per_s=rates, how=dict.fromkeys(rates, "matmul")).to_json()
    made = [maker.ok(maker.cell(precision=word), speed) for word, speed in (("fp32", 1000), ("bf16", rate))]
    found = cells([dataclasses.replace(each, environment=environment) for each in made])
    expected = said.replace("%", "mlp train b128, likely")
    assert worth(answers(found), found).removeprefix("Within one engine, ") == expected


def test_the_headline_says_what_is_fastest_what_is_missing_and_what_is_in_doubt(cells, maker) -> None:
    """Networks in order of importance; devices only where they differ; a doubt of an answer before others."""
    rates = {("mlp", "lightning"): 1000, ("mlp", "keras"): 1010, ("cnn", "lightning"): 100, ("cnn", "keras"): 300}
    made = [maker.ok(maker.cell(model, engine=Engine(engine)), rate) for (model, engine), rate in rates.items()]
    made[3] = maker.ok(made[3].cell, 300, warnings=["slow"])
    beside = maker.beside_others(maker.ok(maker.cell("rnn"), 9))
    made = [
        beside,
        *made,
        maker.ok(maker.cell("cnn", precision="bf16"), 150),
        maker.ok(maker.cell(mode=Mode.infer), 5, maker.stand_in),
    ]
    gone = {"gpu": "no NVIDIA driver (libnvidia-ml)", "tpu": "no chip"}
    made += [maker.record(maker.cell(device=word), Status.skipped, reason=why) for word, why in gone.items()]
    made += [maker.record(maker.cell("lstm"), Status.failed, reason="raised")]
    found = cells(made)
    lines = headline(answers(found), found, "Twice as fast as published.")
    assert lines[0].networks["Training"][0].other == "bf16 with lightning"
    assert {line.topic: line.text for line in lines} == {
        "Fastest": "Training: cnn: fp32 with keras (2.00 times as fast as the next, likely !); can't tell for mlp.",
        "Studies": "Twice as fast as published.",
        "Not measured": "3 of 10 cells: 1 on gpu (no NVIDIA driver), 1 on tpu (no chip), 1 on cpu (failed: raised).",
        "In doubt": "Numbers of 2 of 7 measured cells, marked with ! (1 for another reason, 1 ran beside other "
        "programs): cnn training in fp32 with keras, rnn training in fp32 with lightning. Stand-ins were measured "
        "instead of mnist: speeds hold for data of these shapes, accuracies don't. "
        "Noisy machine: 1 of 7 processes shared the CPU with other programs; don't trust small differences.",
        "Precision": "Within one engine, bf16 pays: it is 1.50 times as fast as fp32 (cnn train b128, likely). "
        "Across engines, fp32 with keras is 2.00 times as fast as it in cnn training !.",
    }
