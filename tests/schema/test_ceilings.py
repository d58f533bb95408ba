import dataclasses

from accelbench.schema.ceilings import ceilings_in
from accelbench.schema.vocab import Precision
from fakes import make_ceilings

RATES = {"flops_per_s": {"fp32": 1e12, "bf16": 4e12}, "how": {"fp32": "matmul 4096", "bf16": "linear 8192"}}
CEILINGS = make_ceilings(device="gpu", **RATES, memory_bytes_per_s=1e11, launch_s=1e-5, seconds=5.0, probed=[])


def test_a_mixed_precision_has_the_higher_ceiling_of_its_two_formats():
    assert CEILINGS.ceiling_of(Precision.bf16_mixed) == CEILINGS.ceiling_of("bf16") == 4e12
    assert CEILINGS.ceiling_of(Precision.fp16_mixed) == CEILINGS.ceiling_of(Precision.fp32) == 1e12
    assert CEILINGS.ceiling_of(Precision.fp16) is None


def test_two_probes_join_to_the_better_of_both():
    later = {"measured_at": "later"}
    rates, how = {"fp32": 2e12, "bf16": 3e12, "fp64": 1e11}, {"fp32": "conv", "bf16": "slow", "fp64": "numpy 512"}
    slower = {"memory_bytes_per_s": 5e10, "launch_s": 2e-5, "seconds": 7.0}
    other = dataclasses.replace(CEILINGS, flops_per_s=rates, how=how, **slower, **later)
    better = {"flops_per_s": rates | {"bf16": 4e12}, "how": how | {"bf16": "linear 8192"}, "seconds": 12.0}
    assert CEILINGS.joined(other) == dataclasses.replace(CEILINGS, **better, **later)


def test_a_disturbed_probe_in_an_earlier_releases_record_is_no_ceiling():
    values = dataclasses.asdict(CEILINGS)
    found = [ceilings_in({"ceilings": values | {"disturbed": words}}) for words in ({}, {"fp32": "others"})]
    assert found == [CEILINGS, None]
