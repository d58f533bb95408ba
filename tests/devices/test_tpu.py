import pytest

from accelbench.devices import packages, tpu

from .fakes import machine


@pytest.fixture
def torch_xla(tmp_path):
    """A torch_xla that brings libtpu along."""
    (tmp_path / "torch_xla/lib").mkdir(parents=True)
    (tmp_path / "torch_xla/lib/libtpu.so").touch()
    return tmp_path / "torch_xla"


@pytest.mark.parametrize(
    ("chips", "nodes", "name", "num"),
    [
        ([("0x1ae0", "0x0027")] * 4 + [("0x1ae0", "0x0042")], ["accel0"], "TPU v2 or v3", "4"),
        ([("0x1ae0", "0x0063")] * 8, ["vfio/vfio", "vfio/0"], "TPU v5e", "8"),
    ],
)
def test_chips_and_their_cores_are_counted(tmp_path, torch_xla, chips, nodes, name, num):
    report = tpu.look(machine(tmp_path, chips, nodes), {}, torch_xla)
    assert (report.present, report.name, report.count, report.details) == (True, name, 8, {"chips": num})


NO_CHIP = "no TPU chip (none on the PCI bus)"
NO_NODE = "the TPU has no /dev/accel* or /dev/vfio/*: run the container with --privileged"


@pytest.mark.parametrize(
    ("chips", "environ", "reason"),
    [
        ([("0x1ae0", "0x0042"), ("0x10de", "0x0063")], {}, NO_CHIP),  # Google's network card, and another vendor's
        ([("0x1ae0", "0x005e")] * 4, {}, NO_NODE),
    ],
)
def test_why_there_is_none(tmp_path, torch_xla, chips, environ, reason):
    report = tpu.look(machine(tmp_path, chips, ["vfio/vfio"]), environ, torch_xla)
    assert (report.present, report.reason) == (False, reason)


def test_torch_tpu_drives_it_where_that_is_installed(tmp_path, torch_xla, monkeypatch):
    root = machine(tmp_path, [("0x1ae0", "0x0063")], ["accel0"])
    monkeypatch.setattr(packages, "version", {"torch_tpu": "0.2.0"}.get)
    assert tpu.look(root, {}, torch_xla).details == {"chips": "1", "torch_tpu": "0.2.0"}
    monkeypatch.setattr(packages, "folder", lambda name: None)
    assert tpu.look(root, {}).reason.startswith("libtpu is not installed: pip install torch_tpu")
    monkeypatch.setattr(packages, "version", lambda name: None)
    assert tpu.look(root, {}).reason.startswith("neither torch_tpu nor torch_xla is installed: pip install torch_tpu")
