"""Peak speeds of devices: what probes of them find, and how cells are judged by them."""

import dataclasses
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

from accelbench.isolation.child import Outcome
from accelbench.judging.row import summarise, warnings_of
from accelbench.judging.verdict import judge
from accelbench.schema.ceilings import ceilings_in, read_ceilings
from accelbench.schema.cell import Precision, Status
from accelbench.schema.measurement import SystemSeries, Work
from accelbench.schema.serialize import plain
from accelbench.sweep.prober import Prober
from fakes import make_ceilings, make_cell, make_measurement, make_record

ENVIRONMENT = {"machine": {"cpu_name": "a CPU"}, "versions": {"torch": "2"}, "variables": {}, "code": "c"}
CELL = make_cell(batch_size=32)
OTHERS = "others used 1.0 of 2 cores"


class FakeHosts:
    """Probes that find what they are told to, one after another; the first `busy` of them beside other load."""

    def __init__(self, *rates, busy=0):
        self.rates, self.busy, self.asked = list(rates), busy, []

    def probe(self, cell, precisions):
        self.asked.append(list(precisions))
        load = {"other_cpu_utilization_percent": [100.0 * (self.busy > 0)], "cpu_utilization_percent": [190.0]}
        self.busy -= 1
        found = make_ceilings(flops_per_s={"fp32": self.rates.pop(0)}, probed=list(precisions))
        system = SystemSeries(started_boot_s=0.0, t_s=[1.0], values=load, num_cores=2)
        return Outcome(status=Status.ok, ceilings=found, system=system)


@pytest.fixture
def said():
    return []


@pytest.fixture
def prober(tmp_path, said):
    """A function: a prober whose probes find these rates; after the first `busy` ones the machine becomes quiet."""

    def comes(why, left_s):
        assert left_s == 5  # no longer than the probe
        said.append(why)
        return True

    def prober(*rates, busy=0, environment=ENVIRONMENT, cells=()):
        hosts, quiet = FakeHosts(*rates, busy=busy), SimpleNamespace(comes=comes)
        return Prober(hosts, tmp_path, environment, said.append, cells, quiet)

    return prober


def judged(one, flops_per_second):
    """The record of a cell whose steps of 32 samples compute so much: 10 steps in 0.1 s."""
    measured = make_measurement(work=Work(flops=round(flops_per_second * 0.01), bytes=1000, num_operators=3))
    found = one.after(CELL, measured, "mlp")
    reason = judge(CELL, measured, found)
    status = Status.invalid if reason else Status.ok
    environment = {**ENVIRONMENT, "ceilings": plain(found)}
    return make_record(CELL, status, environment=environment, measurement=measured, reason=reason)


def test_a_device_is_probed_once_on_a_machine_and_anew_for_another_or_other_versions(prober, said, tmp_path):
    first = prober(1e9).ceilings(CELL)
    assert first.flops_per_s == {"fp32": 1e9}
    again = prober()
    assert again.ceilings(CELL) == again.ceilings(CELL) == first
    assert len(said) == 1
    other = prober(2e9, environment={**ENVIRONMENT, "versions": {"torch": "3"}})
    assert other.ceilings(CELL).flops_per_s == {"fp32": 2e9}
    assert read_ceilings(tmp_path, ENVIRONMENT) == {"cpu": first}
    # A probe that a user asks for, as in `doctor --probe`, keeps the better of both.
    for rate, best in ((2e9, 2e9), (1e9, 2e9)):
        prober(rate).probe(CELL, ["fp32"])
        assert read_ceilings(tmp_path, ENVIRONMENT)["cpu"].flops_per_s == {"fp32": best}


def test_only_the_precisions_of_the_cells_are_probed_and_later_the_missing_ones(prober, said):
    def probe_for(*precisions):
        cells = [dataclasses.replace(CELL, precision=word) for word in precisions]
        one = prober(1e9, cells=cells)
        return one.ceilings(cells[0]), one.hosts.asked

    assert probe_for("fp32", "bf16_mixed")[1] == [["fp32", "bf16"]]
    assert "(fp32, bf16; about 8 s, again only for other packages)" in said[-1]
    found, asked = probe_for("bf16", "fp64")
    assert (found.probed, asked) == (["bf16", "fp32", "fp64"], [["fp64"]])
    assert probe_for("fp64")[1] == []  # all are known


BEYOND = (
    "2.26 times as many operations per second as the device's ceiling (peak rate): algorithms that save operations "
    "reach at most 2.25 times the ceiling"
)


@pytest.mark.parametrize(
    ("rates", "rate", "warning", "reason", "ceiling"),
    [
        ((1e9,), 0.5e9, None, None, 1e9),  # below it
        ((1e9, 3e9), 1.5e9, None, None, 3e9),  # above it: the device is probed again
        ((1e9, 0.9e9), 1.5e9, "1.50 times the device's ceiling", None, 1e9),
        ((1e9, 1e9), 2.26e9, None, BEYOND, 1e9),
    ],
)
def test_a_cell_is_judged_by_the_ceiling_and_keeps_it_in_its_record(
    prober, said, rates, rate, warning, reason, ceiling
):
    prober(rates[0]).ceilings(CELL)  # some other day
    one = prober(*rates[1:])
    one.ceilings(CELL)
    found = judged(one, rate)
    assert found.status == (Status.invalid if reason else Status.ok)
    assert found.reason == reason
    assert warnings_of(summarise(found)) == ([warning] if warning else [])
    assert found.environment["ceilings"]["flops_per_s"] == {"fp32": ceiling}
    assert sum("about 5 s, again: mlp was faster)" in each for each in said) == len(rates) - 1


# Here ACCELBENCH_BUSY=allowed is set, as in all tests: it accepts cells on a busy machine, but no ceilings.
def test_a_probe_beside_other_load_is_repeated_once_on_the_quiet_machine(prober, said):
    one = prober(90e9, 90e9, busy=2)
    assert one.ceilings(CELL) is None
    assert f"The probe of cpu was disturbed ({OTHERS})" in said
    assert said[-1] == f"The peak speed of cpu is unknown in this sweep: other programs disturbed the probe ({OTHERS})"
    row = summarise(judged(one, 84e9))
    assert (row["mfu"], row["ceiling_flops_per_s"], row["bound"]) == (None, None, None)
    assert prober(90e9, 171e9, busy=1).ceilings(CELL).flops_per_s == {"fp32": 171e9}


CEILINGS = make_ceilings(flops_per_s={"fp32": 1e12, "bf16": 4e12}, memory_bytes_per_s=1e11, launch_s=1e-5, probed=[])


def test_two_probes_join_to_the_better_of_both_and_a_disturbed_one_of_an_earlier_release_is_none():
    words = (Precision.bf16_mixed, Precision.fp16_mixed, Precision.fp32, Precision.fp16)
    assert [CEILINGS.ceiling_of(word) for word in words] == [4e12, 1e12, 1e12, None]  # of a mixed one, the higher one
    other = replace(CEILINGS, flops_per_s={"fp32": 2e12, "bf16": 3e12}, memory_bytes_per_s=5e10, launch_s=2e-5)
    assert CEILINGS.joined(other) == replace(CEILINGS, flops_per_s={"fp32": 2e12, "bf16": 4e12})
    values = asdict(CEILINGS)
    found = [ceilings_in({"ceilings": values | {"disturbed": words}}) for words in ({}, {"fp32": "others"})]
    assert found == [CEILINGS, None]
