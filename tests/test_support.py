import itertools

import pytest

from accelbench.cell import Cell, DataSpec, ModelSpec
from accelbench.devices.base import DeviceReport, absent
from accelbench.support import why_not
from accelbench.vocab import Device, Engine, Mode, Precision, Protocol

MODELS = ("mlp", "cnn", "rnn", "lstm", "autoencoder")


def report(device, capability="8.0", instruction_sets=""):
    details = {"compute_capability": capability} if device == Device.gpu and capability else {}
    details |= {"instruction_sets": instruction_sets}
    return DeviceReport(device=device, present=True, name="NVIDIA X", count=1, details=details)


def cell(device, precision, mode=Mode.train, model="mlp", optimizer="adam"):
    return Cell(
        suite="test",
        engine=Engine.lightning,
        device=Device(device),
        model=ModelSpec(name=model, optimizer=optimizer),
        data=DataSpec(name="mnist"),
        mode=Mode(mode),
        precision=Precision(precision),
        batch_size=32,
        protocol=Protocol.window,
        epochs=1,
    )


def refused(device, **kwargs):
    """Every refused (precision, mode, model) on `device`, with adam and with sgd."""
    found = {}
    for precision, mode, model, optimizer in itertools.product(Precision, Mode, MODELS, ("adam", "sgd")):
        reason = why_not(cell(device, precision, mode, model, optimizer), report(device, **kwargs))
        if reason is not None:
            found[precision.value, mode.value, model, optimizer] = reason
    return found


def all_of(precision, modes=Mode, models=MODELS, optimizers=("adam", "sgd")):
    return {(precision, str(mode), model, opt) for mode, model, opt in itertools.product(modes, models, optimizers)}


FP16_ADAM = all_of("fp16", modes=["train"], optimizers=["adam"])


def test_on_the_cpu():
    lstm = all_of("fp16_mixed", models=["lstm"])
    assert set(refused(Device.cpu)) == all_of("tf32") | FP16_ADAM | lstm


def test_on_a_cpu_with_avx512_fp16_an_lstm_infers_in_fp16_mixed():
    lstm = all_of("fp16_mixed", models=["lstm"], modes=["train"])
    assert set(refused(Device.cpu, instruction_sets="avx2 avx512_fp16")) == all_of("tf32") | FP16_ADAM | lstm


@pytest.mark.parametrize("device", [Device.tpu, Device.xla_cpu])
def test_on_xla(device):
    assert set(refused(device)) == all_of("tf32") | all_of("fp16") | all_of("fp16_mixed")


@pytest.mark.parametrize("capability", ["8.0", "9.0", "12.0"])
def test_on_a_gpu_from_ampere_on(capability):
    assert set(refused(Device.gpu, capability=capability)) == FP16_ADAM


@pytest.mark.parametrize("capability", ["7.5", "7.0", None])
def test_on_an_older_gpu_and_on_one_that_does_not_tell(capability):
    older = all_of("tf32") | all_of("bf16") | all_of("bf16_mixed")
    assert set(refused(Device.gpu, capability=capability)) == older | FP16_ADAM


@pytest.mark.parametrize(
    ("kwargs", "device"),
    [({}, Device.cpu), ({}, Device.tpu), ({}, Device.xla_cpu), ({}, Device.gpu), ({"capability": "7.5"}, Device.gpu)],
)
def test_each_reason_is_one_line_and_what_it_names_instead_runs(device, kwargs):
    for (precision, mode, model, optimizer), reason in refused(device, **kwargs).items():
        assert "\n" not in reason
        instead = Precision(reason.rpartition(": use ")[2])
        assert instead != precision
        again = cell(device, instead, mode, model, optimizer)
        assert why_not(again, report(device, **kwargs)) is None


@pytest.mark.parametrize("device", Device)
def test_an_absent_device_comes_first(device):
    missing = absent(device, "nothing there")
    for precision in Precision:
        assert why_not(cell(device, precision), missing) == "nothing there"


def test_the_reason_names_the_gpu_and_what_it_has():
    reason = why_not(cell("gpu", "tf32"), report(Device.gpu, capability="7.5"))
    assert reason == "tf32 needs compute capability 8.0, NVIDIA X has 7.5: use fp32"
