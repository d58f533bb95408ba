import dataclasses
import json

import pytest

from accelbench.isolation.hosts import Hosts, ProbeFailedError
from accelbench.judging.row import summarise
from accelbench.project import CEILINGS
from accelbench.schema.ceilings import read_ceilings
from accelbench.schema.measurement import Block, Work
from accelbench.schema.vocab import Precision, Status
from accelbench.sweep.prober import Prober, flops_per_s, slow_formats
from fakes import faulty_host, make_ceilings, make_cell, make_measurement, make_record

ENVIRONMENT = {"machine": {"cpu_name": "a CPU"}, "versions": {"torch": "2"}, "variables": {}, "code": "c"}
CELL = make_cell(batch_size=32)
OTHERS = "others used 1.0 of 2 cores"


def ceilings(fp32):
    return make_ceilings(flops_per_s={"fp32": fp32}, how={"fp32": "matmul"}, probed=["fp32"])


class FakeHosts:
    """Probes that find what they are told to, one after another; the first `busy` of them beside other load."""

    def __init__(self, *rates, fails=False, busy=0):
        self.rates, self.fails, self.busy = list(rates), fails, busy

    def can_probe(self, cell):
        return True

    def probe(self, cell, precisions):
        if self.fails:
            raise ProbeFailedError("no such device")
        self.busy -= 1
        disturbed = dict.fromkeys(precisions, OTHERS) if self.busy >= 0 else {}
        return dataclasses.replace(ceilings(self.rates.pop(0)), probed=list(precisions), disturbed=disturbed)


def record_of(flops_per_second, status=Status.ok):
    """A cell's record whose steps of 32 samples compute so much: 320 samples in 0.1 s, 10 steps."""
    work = Work(flops=round(flops_per_second * 0.01), bytes=1000, num_operators=3)
    blocks = [Block(num_steps=10, num_samples=320, seconds=0.1)] * 8
    measured = make_measurement(work=work, blocks=blocks)
    return make_record(CELL, status, environment=ENVIRONMENT, measurement=measured)


@pytest.fixture
def said():
    return []


def prober(tmp_path, hosts, said):
    return Prober(hosts, tmp_path, ENVIRONMENT, said.append)


def test_a_device_is_probed_once_on_a_machine(tmp_path, said):
    assert prober(tmp_path, FakeHosts(1e9), said).ceilings(CELL).flops_per_s == {"fp32": 1e9}
    again = prober(tmp_path, FakeHosts(), said)
    assert again.ceilings(CELL) == again.ceilings(CELL) == ceilings(1e9)
    assert len(said) == 1
    assert read_ceilings(tmp_path, ENVIRONMENT) == {"cpu": ceilings(1e9)}


def test_only_the_precisions_of_the_cells_are_probed_and_later_the_missing_ones(tmp_path, said):
    asked = []

    class Noting(FakeHosts):
        def probe(self, cell, precisions):
            asked.append(list(precisions))
            return super().probe(cell, precisions)

    def probe_for(*precisions):
        cells = [dataclasses.replace(CELL, precision=word) for word in precisions]
        return Prober(Noting(1e9), tmp_path, ENVIRONMENT, said.append, cells).ceilings(cells[0])

    probe_for("fp32", "bf16_mixed")
    assert "(fp32, bf16; about 8 s, once for these packages)" in said[-1]
    assert probe_for("bf16", "fp64").probed == ["bf16", "fp32", "fp64"]
    assert probe_for("fp64").measured_at  # all are known
    assert asked == [["fp32", "bf16"], ["fp64"]]


def test_another_machine_or_version_is_probed_anew(tmp_path, said):
    prober(tmp_path, FakeHosts(1e9), said).ceilings(CELL)
    other = {**ENVIRONMENT, "versions": {"torch": "3"}}
    assert Prober(FakeHosts(2e9), tmp_path, other, said.append).ceilings(CELL).flops_per_s == {"fp32": 2e9}
    assert read_ceilings(tmp_path, ENVIRONMENT)["cpu"].flops_per_s == {"fp32": 1e9}


@pytest.mark.parametrize("text", ["", "[]", "{", json.dumps({"x": {"cpu": {"device": "cpu"}}})])
def test_a_file_that_is_not_readable_is_as_good_as_none(tmp_path, said, text):
    (tmp_path / CEILINGS).write_text(text)
    assert prober(tmp_path, FakeHosts(1e9), said).ceilings(CELL).flops_per_s == {"fp32": 1e9}


def test_a_device_that_can_not_be_probed_has_no_ceilings_and_is_told_once(tmp_path, said):
    failing = prober(tmp_path, FakeHosts(fails=True), said)
    assert failing.ceilings(CELL) is None
    assert failing.ceilings(CELL) is None
    assert "cpu could not be probed: no such device" in said[-1]
    assert failing.judged(record_of(1e12)).status == Status.ok


def test_a_cell_below_the_ceiling_keeps_it_in_its_record(tmp_path, said):
    one = prober(tmp_path, FakeHosts(1e9), said)
    one.ceilings(CELL)
    judged = one.judged(record_of(0.5e9))
    assert (judged.status, judged.measurement.warnings) == (Status.ok, [])
    assert judged.environment["ceilings"] == ceilings(1e9).to_json()


def known(tmp_path, said, first, *later):
    """A prober of a machine that was probed some other day."""
    prober(tmp_path, FakeHosts(first), said).ceilings(CELL)
    one = prober(tmp_path, FakeHosts(*later), said)
    one.ceilings(CELL)
    return one


def test_a_cell_above_it_has_the_device_probed_again(tmp_path, said):
    judged = known(tmp_path, said, 1e9, 3e9).judged(record_of(1.5e9))
    assert (judged.status, judged.measurement.warnings) == (Status.ok, [])
    assert judged.environment["ceilings"]["flops_per_s"] == {"fp32": 3e9}


def test_a_cell_that_stays_above_it_is_warned_of(tmp_path, said):
    judged = known(tmp_path, said, 1e9, 0.9e9, 0.9e9, 0.9e9).judged(record_of(1.5e9))
    assert judged.status == Status.ok
    assert judged.measurement.warnings == ["1.5 GFLOP/s, 1.50 times the device's ceiling"]


def test_a_cell_beyond_what_an_algorithm_explains_is_invalid(tmp_path, said):
    judged = known(tmp_path, said, 1e9, 1e9, 1e9, 1e9).judged(record_of(3e9))
    assert judged.status == Status.invalid
    assert judged.reason.startswith("3 GFLOP/s, 3.00 times the device's ceiling: more than the 2.25")


class Machine:
    """In the place of `Quiet`: becomes quiet as often as it is told."""

    def __init__(self, *becomes_quiet):
        self.becomes_quiet, self.asked = list(becomes_quiet), []

    def comes(self, why):
        self.asked.append(why)
        return self.becomes_quiet.pop(0)


@pytest.fixture
def beside_load(tmp_path, said, monkeypatch):
    """A function: a prober whose first `busy` probes run beside other load; `waits`: whether it becomes quiet then."""
    monkeypatch.delenv("ACCELBENCH_BUSY")

    def beside_load(rates, busy, *waits):
        hosts = FakeHosts(*rates, busy=busy)
        return Prober(hosts, tmp_path, ENVIRONMENT, said.append, quiet=Machine(*waits))

    return beside_load


def test_a_probe_beside_other_load_is_repeated_on_the_quiet_machine(beside_load, tmp_path):
    one = beside_load([90e9, 171e9], 1, True)
    assert one.ceilings(CELL).flops_per_s == {"fp32": 171e9}
    assert one._quiet.asked == [f"The probe of cpu was disturbed ({OTHERS})"]
    assert read_ceilings(tmp_path, ENVIRONMENT)["cpu"].disturbed == {}


def test_a_ceiling_beside_other_load_is_no_share_and_the_row_says_why(beside_load):
    one = beside_load([90e9] * 4, 4, *[False] * 4)
    assert one.ceilings(CELL).disturbed == {"fp32": OTHERS}
    judged = one.judged(record_of(84e9))
    row = summarise(judged)
    assert (row["mfu"], row["ceiling_flops_per_s"], row["bound"]) == (None, None, None)
    assert row["flops_per_s"] == pytest.approx(84e9)
    assert f"no share of the ceiling, which was probed beside other load ({OTHERS})" in row["warnings"]


def test_it_is_taken_again_when_a_cell_comes_near_and_for_no_other_cell_twice(beside_load):
    one = beside_load([90e9, 80e9, 85e9, 171e9], 3, False, False, False)
    one.ceilings(CELL)
    for rate, num_left in ((10e9, 2), (20e9, 2), (70e9, 2), (80e9, 0)):
        judged = one.judged(record_of(rate))
        assert len(one.hosts.rates) == num_left
    assert summarise(judged)["mfu"] == pytest.approx(80 / 171)


def test_the_next_sweep_takes_it_again_once_the_machine_is_quiet(beside_load, tmp_path):
    beside_load([90e9], 1, False).ceilings(CELL)
    assert beside_load([], 0, False).ceilings(CELL).disturbed == {"fp32": OTHERS}
    again = beside_load([171e9], 0, True).ceilings(CELL)
    assert (again.flops_per_s, again.disturbed) == ({"fp32": 171e9}, {})
    assert read_ceilings(tmp_path, ENVIRONMENT)["cpu"] == again


def test_where_load_is_allowed_a_probe_counts(beside_load, monkeypatch):
    monkeypatch.setenv("ACCELBENCH_BUSY", "allowed")
    assert beside_load([90e9], 1).ceilings(CELL).disturbed == {}


def test_a_probe_is_sampled_as_a_cell_is(tmp_path, said, monkeypatch):
    monkeypatch.delenv("ACCELBENCH_BUSY")
    monkeypatch.setattr("accelbench.isolation.hosts.while_sampled", lambda system: system and OTHERS)
    with Hosts(lambda cell: dataclasses.replace(faulty_host(cell), prober="faulty_prober")) as hosts:
        found = prober(tmp_path, hosts, said).ceilings(CELL)
    assert found.disturbed == dict.fromkeys(found.probed, OTHERS)


def test_what_has_no_count_or_failed_is_left_as_it_is(tmp_path, said):
    one = prober(tmp_path, FakeHosts(1e9), said)
    one.ceilings(CELL)
    uncounted = dataclasses.replace(record_of(3e9), measurement=make_measurement(work=Work(uncounted=["aten.fft"])))
    assert one.judged(uncounted).status == Status.ok
    assert flops_per_s(record_of(3e9, Status.failed)) is None
    assert one.judged(record_of(3e9, Status.failed)).status == Status.failed


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_real_cpu_is_probed_in_a_process_of_its_own(tmp_path, said):
    with Hosts() as hosts:
        found = prober(tmp_path, hosts, said).ceilings(CELL)
    assert found.device_name
    assert found.flops_per_s["fp32"] > 1e9
    assert found.launch_s < 1e-3


WITHOUT_UNITS = {"fp32": 90e9, "bf16": 15e9, "fp16": 2.4e9, "fp64": 44e9, "int8": 9e9}
BF16 = (
    "bf16 has no units here (15 against 90 GFLOP/s in fp32): expect its cells about 6 times slower than fp32's, or more"
)
FP16 = (
    "fp16 has no units here (2.4 against 90 GFLOP/s in fp32): expect its cells about 38 times slower than fp32's, or "
    "more"
)


@pytest.mark.parametrize(
    ("rates", "precisions", "told"),
    [
        (WITHOUT_UNITS, ["fp32", "bf16"], [BF16]),
        (WITHOUT_UNITS, ["bf16", "fp16", "bf16"], [BF16, FP16]),
        (WITHOUT_UNITS, ["bf16_mixed"], [BF16]),
        (WITHOUT_UNITS, ["fp32", "fp64", "int8", "tf32"], []),  # integers and fp64 have units, which may be slower
        ({"fp32": 90e9, "bf16": 350e9}, ["bf16"], []),
        ({"fp32": 90e9, "bf16": 50e9}, ["bf16"], []),  # not far below: a probe may have been disturbed
        ({"fp32": 90e9}, ["bf16"], []),  # not known
        ({"bf16": 15e9}, ["bf16"], []),
    ],
)
def test_a_format_far_below_fp32_is_told(rates, precisions, told):
    ceilings = make_ceilings(flops_per_s=rates, how=dict.fromkeys(rates, "matmul"))
    assert list(slow_formats(ceilings, map(Precision, precisions))) == told
