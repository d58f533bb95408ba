import pytest

from accelbench.devices import packages, proc, tpu

from .fakes import machine


@pytest.fixture
def look(tmp_path, monkeypatch):
    """A function that reports on the TPU of a machine with these chips and nodes, and with torch_xla."""
    monkeypatch.setattr(packages, "folder", {"torch_xla": tmp_path / "torch_xla"}.get)

    def look(*of_machine):
        monkeypatch.setattr(proc, "ROOT", machine(tmp_path, *of_machine))
        return tpu.look()

    return look


@pytest.mark.parametrize(
    ("chips", "nodes", "name", "num"),
    [
        ([("0x1ae0", "0x0027")] * 4 + [("0x1ae0", "0x0042")], ["accel0"], "TPU v2 or v3", "4"),
        ([("0x1ae0", "0x0063")] * 8, ["vfio/vfio", "vfio/0"], "TPU v5e", "8"),
    ],
)
def test_chips_and_their_cores_are_counted(look, chips, nodes, name, num):
    report = look(chips, nodes)
    assert (report.present, report.name, report.count, report.details) == (True, name, 8, {"chips": num})


NO_CHIP = "no TPU chip (none on the PCI bus)"
NO_NODE = "the TPU has no /dev/accel* or /dev/vfio/*: run the container with --privileged"


@pytest.mark.parametrize(
    ("chips", "reason"),
    [
        ([("0x1ae0", "0x0042"), ("0x10de", "0x0063")], NO_CHIP),  # Google's network card, and another vendor's
        ([("0x1ae0", "0x005e")] * 4, NO_NODE),
    ],
)
def test_why_there_is_none(look, chips, reason):
    report = look(chips, ["vfio/vfio"])
    assert (report.present, report.reason) == (False, reason)


def test_torch_tpu_drives_it_where_that_is_installed(look, monkeypatch):
    monkeypatch.setattr(packages, "version", {"torch_tpu": "0.2.0"}.get)
    assert look([("0x1ae0", "0x0063")], ["accel0"]).details == {"chips": "1", "torch_tpu": "0.2.0"}
    monkeypatch.setattr(packages, "folder", lambda name: None)
    monkeypatch.setattr(packages, "version", lambda name: None)
    assert tpu.look().reason.startswith("neither torch_tpu nor torch_xla is installed: pip install torch_tpu")
