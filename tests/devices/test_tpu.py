import pytest

from accelbench.devices import packages, tpu


def look_for_tpus(root, devices, nodes=()):
    for index, numbers in enumerate(devices):
        files = zip(("vendor", "device"), numbers.split(), strict=True)
        root({f"sys/bus/pci/devices/0000:00:{index:02x}.0/{name}": number for name, number in files})
    root({f"dev/{node}": "" for node in nodes})
    return tpu.look()


V5E, CARD, OTHER = "0x1ae0 0x0063", "0x1ae0 0x0042", "0x10de 0x0063"  # Google's network card, and another vendor's


@pytest.mark.parametrize(
    ("devices", "nodes", "name", "num"),
    [
        (["0x1ae0 0x0027"] * 4 + [CARD], ["accel0"], "TPU v2 or v3", "4"),
        ([V5E] * 8, ["vfio/vfio", "vfio/0"], "TPU v5e", "8"),
    ],
)
def test_chips_and_their_cores_are_counted(root, monkeypatch, devices, nodes, name, num):
    monkeypatch.setattr(packages, "folder", lambda name: name if name == "torch_xla" else None)
    report = look_for_tpus(root, devices, nodes)
    assert (report.present, report.name, report.count, report.details) == (True, name, 8, {"chips": num})


def test_why_there_is_no_tpu(root, monkeypatch):
    monkeypatch.setattr(packages, "folder", lambda name: name if name == "torch_xla" else None)
    assert look_for_tpus(root, [CARD, OTHER], ["vfio/vfio"]).reason == "no TPU chip (none on the PCI bus)"
    no_node = "the TPU has no /dev/accel* or /dev/vfio/*: run the container with --privileged"
    assert look_for_tpus(root, [V5E] * 4).reason == no_node
    monkeypatch.setattr(packages, "version", {"torch_tpu": "0.2.0"}.get)
    assert look_for_tpus(root, [V5E], ["accel0"]).details == {"chips": "4", "torch_tpu": "0.2.0"}
    for what in ("folder", "version"):
        monkeypatch.setattr(packages, what, lambda name: None)
    assert tpu.look().reason.startswith("neither torch_tpu nor torch_xla is installed: pip install torch_tpu")
