"""Each network is checked once, before anything is measured."""

from dataclasses import replace

import pytest

from accelbench import lock
from accelbench.cli import main
from accelbench.isolation.messages import Outcome
from accelbench.schema.vocab import Device, Library, Mode, Precision, Status
from accelbench.schema.workload import ModelSpec
from accelbench.sweep.session import Preflight
from fakes import make_cell


class Checks:
    """Hosts that note what is checked; a network named `bad` fails."""

    def __init__(self, status=Status.failed):
        self.checked, self.status = [], status

    def check(self, cell, data_folder):
        self.checked.append(cell)
        is_bad = cell.model.name == "bad"
        return Outcome(status=self.status if is_bad else Status.ok, reason="nets.py:3: no" if is_bad else None)


def own(name, **changes):
    return make_cell(model=ModelSpec(name=name, library=Library.custom, network=f"nets.{name}"), **changes)


def test_cells_that_differ_in_precision_and_batch_are_checked_once_with_the_smallest_batch(tmp_path):
    hosts = Checks()
    cells = [own("good", batch_size=num, precision=precision) for num in (64, 8) for precision in Precision]
    assert Preflight(hosts, tmp_path).check([*cells, own("good", mode=Mode.train), make_cell()]) == 2
    assert [(cell.batch_size, cell.mode) for cell in hosts.checked] == [(8, Mode.infer), (32, Mode.train)]


def test_a_failure_is_that_of_every_cell_of_the_network(tmp_path):
    preflight = Preflight(Checks(), tmp_path)
    bad = own("bad")
    half = replace(bad, precision=Precision.bf16)
    preflight.check([bad, half, own("good")])
    for cell in (bad, half, replace(bad, seed=3), replace(half, device=Device.gpu)):
        assert preflight.failure(cell) == Outcome(status=Status.failed, reason="nets.py:3: no", user_error=True)
    assert preflight.failure(own("good")) is None


def test_what_fails_in_fp32_on_the_cpu_may_run_on_a_gpu(tmp_path):
    class NeedsGpu(Checks):
        def check(self, cell, data_folder):
            outcome = super().check(cell, data_folder)
            return replace(outcome, status=Status.ok) if cell.device == Device.gpu else outcome

    hosts, bad = NeedsGpu(), own("bad")
    preflight = Preflight(hosts, tmp_path)
    assert preflight.check([replace(bad, device=Device.gpu), bad]) == 1
    assert [cell.device for cell in hosts.checked] == [Device.cpu, Device.gpu]
    assert preflight.failure(bad) is not None
    assert preflight.failure(replace(bad, device=Device.gpu)) is None


def test_a_check_that_takes_too_much_time_or_memory_is_no_verdict(tmp_path):
    for status in (Status.timeout, Status.oom, Status.killed, Status.skipped):
        preflight = Preflight(Checks(status), tmp_path)
        preflight.check([own("bad")])
        assert preflight.failure(own("bad")) is None


@pytest.mark.fault
@pytest.mark.parametrize("words", ["", "-m seed=0,1", "plan --check", "plan --check -m seed=0,1"])
def test_a_typo_is_told_while_another_measures(words, here, monkeypatch, capsys):
    """A typo cost whoever waited for the machine's lock a minute."""
    monkeypatch.setattr(lock, "_holder", lambda client: pytest.fail("it waits for the lock"))
    with lock.hold_measuring(pytest.fail):
        assert main([*words.split(), "model=custom", "model.target=foo.Bar", "mode=infer"]) == 2
    assert "model.target=foo.Bar: " in (told := capsys.readouterr().err)
    assert "no module foo" in told.lower() or "foo" in told.partition("model.target=foo.Bar: ")[2]
