"""The backend for torch.accelerator, on a device that is defined in Python; see tests/later.py."""

import pytest
import torch

import later
from accelbench.isolation.hosts import Hosts
from accelbench.schema.vocab import Device, Mode, Precision, Protocol, Status
from accelbench.schema.workload import ModelSpec
from fakes import TESTS, make_cell

VERSION = tuple(map(int, torch.__version__.split(".")[:2]))
pytestmark = pytest.mark.skipif(VERSION < (2, 10), reason="torch lets Python define a device from 2.10 on")

OPERATOR_S = 0.004
LEAST_S = {Mode.infer: 5 * OPERATOR_S, Mode.train: 25 * OPERATOR_S}  # least seconds of a step, which has more operators
MLP = ModelSpec(name="mlp", args={"widths": [32, 32], "dropout": 0.0}, optimizer="sgd", learning_rate=0.05)


@pytest.fixture
def outcome(tmp_path, monkeypatch, digits):
    """The outcome of a cell on the device, measured like a cell of a sweep."""
    later.install(tmp_path, monkeypatch)
    monkeypatch.syspath_prepend(str(TESTS))
    monkeypatch.setenv(later.OPERATOR_S, str(OPERATOR_S))

    def outcome(**settings):
        settings = {"protocol": Protocol.steps, "steps": 10, "warmup": 2, **settings}
        with Hosts() as hosts:
            return hosts.run(make_cell(device=Device.tpu, model=MLP, **settings), digits)

    return outcome


def steps_s(measured):
    return [block.seconds / block.num_steps for block in measured.blocks]


@pytest.mark.parametrize(
    ("mode", "precision"),
    [(Mode.infer, Precision.fp32), (Mode.train, Precision.fp32), (Mode.infer, Precision.bf16_mixed)],
)
def test_a_device_that_computes_later_is_waited_for(outcome, mode, precision):
    measurement = outcome(mode=mode, precision=precision)
    assert (measurement.status, measurement.reason) == (Status.ok, None), measurement.error
    measured = measurement.measurement
    assert (measured.device, measured.device_name, measured.precision) == (Device.tpu, "a device in Python", precision)
    assert measured.peak_device_bytes == 12345
    assert min([*steps_s(measured), *measured.latency_s]) >= LEAST_S[mode]
    phases_s = sum(map(min, measured.breakdown.phases_s.values()))
    assert phases_s >= LEAST_S[mode], "events tell when the device is done"
    assert not measured.warnings


def test_a_backend_that_does_not_wait_is_seen(outcome, monkeypatch):
    monkeypatch.setenv(later.FORGETS, "true")
    measured = outcome(mode=Mode.train).measurement  # training copies nothing back: a copy would wait for the device
    assert min([*steps_s(measured), *measured.latency_s]) < LEAST_S[Mode.train]
