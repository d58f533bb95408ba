from dataclasses import asdict, replace

from accelbench.schema.ceilings import ceilings_in
from accelbench.schema.cell import Precision
from fakes import make_ceilings

CEILINGS = make_ceilings(flops_per_s={"fp32": 1e12, "bf16": 4e12}, memory_bytes_per_s=1e11, launch_s=1e-5, probed=[])


def test_a_mixed_precision_has_the_higher_ceiling_of_its_two_formats():
    assert CEILINGS.ceiling_of(Precision.bf16_mixed) == CEILINGS.ceiling_of("bf16") == 4e12
    assert CEILINGS.ceiling_of(Precision.fp16_mixed) == CEILINGS.ceiling_of(Precision.fp32) == 1e12
    assert CEILINGS.ceiling_of(Precision.fp16) is None


def test_two_probes_join_to_the_better_of_both():
    rates = {"fp32": 2e12, "bf16": 3e12, "fp64": 1e11}
    other = replace(CEILINGS, flops_per_s=rates, memory_bytes_per_s=5e10, launch_s=2e-5)
    assert CEILINGS.joined(other) == replace(CEILINGS, flops_per_s=rates | {"bf16": 4e12})


def test_a_disturbed_probe_in_an_earlier_releases_record_is_no_ceiling():
    values = asdict(CEILINGS)
    found = [ceilings_in({"ceilings": values | {"disturbed": words}}) for words in ({}, {"fp32": "others"})]
    assert found == [CEILINGS, None]
