import dataclasses

import pytest

from accelbench.grid.fingerprint import fingerprint
from accelbench.schema.ceilings import keep_of_machine, read_ceilings
from accelbench.schema.vocab import Engine
from accelbench.serving import calibration
from accelbench.serving.calibration import Null, known, null
from fakes import make_ceilings


@pytest.fixture(scope="module")
def machine():
    return fingerprint(Engine.pytorch)


def test_a_model_that_answers_at_once_is_measured(monkeypatch):
    monkeypatch.setattr(calibration, "FIRST_RATE", 1e5)
    found = calibration.measured()
    assert 0 < found.p50_s <= found.p99_s
    assert found.rate is None or found.rate >= 1e5  # None on a busy machine


def test_it_is_measured_once_on_a_machine_and_kept_beside_the_ceilings(machine, tmp_path, monkeypatch):
    one = Null(p50_s=1e-4, p99_s=2e-4, rate=None)
    results = [one, two := dataclasses.replace(one, rate=4000.0), three := dataclasses.replace(one, rate=8000.0)]
    monkeypatch.setattr(calibration, "measured", lambda: results.pop(0))
    keep_of_machine(tmp_path, machine, "cpu", ceilings := make_ceilings())
    assert known(tmp_path, machine) is None
    assert null(tmp_path, machine) == one
    assert null(tmp_path, machine) == two  # what was found on a busy machine is not kept for ever
    assert null(tmp_path, machine) == two
    assert known(tmp_path, {**machine, "machine": {}}) is None
    keep_of_machine(tmp_path, machine, "cpu", ceilings)
    assert null(tmp_path, machine, again=True) == three == known(tmp_path, machine)
    assert read_ceilings(tmp_path, machine) == {"cpu": ceilings}
