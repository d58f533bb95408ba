"""What comes before a sweep: the data set, and a check of each network."""

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from accelbench import lock
from accelbench.cli import main
from accelbench.data.arrays import read_manifest
from accelbench.isolation.messages import Outcome
from accelbench.project import Workplace
from accelbench.schema.measurement import Work
from accelbench.schema.vocab import Device, Library, Mode, Precision, Status
from accelbench.schema.workload import DataSpec, ModelSpec
from accelbench.sweep import forecast
from accelbench.sweep.context import prepare_missing
from accelbench.sweep.session import Preflight
from fakes import make_cell

# The data set

PARAMS = "data: {random: {}, mnist: {source: /nowhere}}\n"


def said(root, name, **settings):
    (root / "params.yaml").write_text(PARAMS)
    out = io.StringIO()
    prepare_missing(Workplace.of_project(root), DataSpec(name=name, **settings), Console(file=out))
    return out.getvalue()


def test_a_missing_set_is_prepared_once_and_a_line_says_so_but_for_random_images(tmp_path):
    np.savez(tmp_path / "mine.npz", images=np.zeros((40, 8, 8), np.uint8), labels=np.arange(40) % 2)
    arrays = {"path": str(tmp_path / "mine.npz")}
    assert said(tmp_path, "arrays", **arrays).startswith(f"Preparing {tmp_path}/data/arrays")
    assert said(tmp_path, "arrays", **arrays) == ""
    assert said(tmp_path, "random") == ""
    assert read_manifest(tmp_path / "data" / "random").name == "random"
    assert not (tmp_path / "data" / "random").exists()


AUTO = "data:\n  mnist: {source: auto}\n  cats_vs_dogs: {source: auto, max_images: 400}\n"


def test_an_estimate_is_of_the_original_or_of_the_part_that_is_wanted(tmp_path):
    (tmp_path / "params.yaml").write_text(AUTO)
    place = Workplace.of_project(tmp_path)
    assert forecast.inputs_of(place, "mnist", None).num_samples == (60_000, 10_000)
    assert forecast.inputs_of(place, "cats_vs_dogs", None).num_samples == (320, 80)


# The check of each network


class Checks:
    """Hosts that note what is checked; a network named `bad` fails, on these devices."""

    def __init__(self, status=Status.failed, fails_on=tuple(Device)):
        self.checked, self.status, self.fails_on = [], status, fails_on

    def check(self, cell, data_folder):
        self.checked.append(cell)
        is_bad = cell.model.name == "bad" and cell.device in self.fails_on
        bad = Outcome(status=self.status, reason="nets.py:3: no")
        return bad if is_bad else Outcome(status=Status.ok, work=Work(flops=7))


def own(name, **changes):
    return make_cell(model=ModelSpec(name=name, library=Library.custom, network=f"nets.{name}"), **changes)


BAD = own("bad")


def test_cells_that_differ_in_precision_and_batch_are_checked_once_with_the_smallest_batch(tmp_path):
    preflight = Preflight(Checks(), tmp_path, print)
    cells = [own("good", batch_size=num, precision=precision) for num in (64, 8) for precision in Precision]
    assert preflight.check([*cells, own("good", mode=Mode.train), make_cell()]) == 2
    found = [(cell.batch_size, cell.mode, work.flops) for cell, work in preflight.works]
    assert found == [(8, Mode.infer, 7), (32, Mode.train, 7)]


def test_what_fails_in_fp32_on_the_cpu_may_run_on_a_gpu(tmp_path):
    hosts, on_gpu = Checks(fails_on=(Device.cpu,)), replace(BAD, device=Device.gpu)
    preflight = Preflight(hosts, tmp_path, print)
    assert preflight.check([on_gpu, BAD]) == 1
    assert [cell.device for cell in hosts.checked] == [Device.cpu, Device.gpu]
    assert preflight.failure(BAD) is not None
    assert preflight.failure(on_gpu) is None


@pytest.mark.parametrize("status", [Status.timeout, Status.oom, Status.killed, Status.skipped])
def test_a_check_that_takes_too_much_time_or_memory_is_no_verdict(status, tmp_path):
    preflight = Preflight(Checks(status), tmp_path, print)
    preflight.check([BAD])
    assert preflight.failure(BAD) is None


@pytest.mark.fault
@pytest.mark.parametrize("words", ["", "-m seed=0,1", "plan --check", "plan --check -m seed=0,1"])
def test_a_typo_is_told_while_another_measures(words, here, monkeypatch, capsys):
    """A typo cost whoever waited for the machine's lock a minute."""
    monkeypatch.setattr(lock, "_holder", lambda client: pytest.fail("it waits for the lock"))
    with lock.hold_measuring(pytest.fail):
        assert main([*words.split(), "model=custom", "model.target=foo.Bar", "mode=infer"]) == 2
    assert "foo" in capsys.readouterr().err.partition("model.target=foo.Bar: ")[2]
