import platform

from accelbench.devices import mps, packages, proc, xpu

from .fakes import machine


def test_an_intel_gpu_needs_the_build_of_torch_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr(packages, "folder", lambda name: tmp_path)
    root = machine(tmp_path, [("0x8086", "0x1237", "0x060000"), ("0x10de", "0x2330", "0x030200")])
    monkeypatch.setattr(proc, "ROOT", root)
    assert xpu.look().reason == "no Intel GPU on the PCI bus"  # of Intel, the bridge
    monkeypatch.setattr(proc, "ROOT", machine(tmp_path / "other", [("0x8086", "0x0bda", "0x038000")] * 2))
    (tmp_path / "version.py").write_text("xpu: Optional[str] = None\n")
    assert xpu.look().reason.startswith("the installed torch is built without XPU: install torch with pip")
    (tmp_path / "version.py").write_text("xpu: Optional[str] = '20250301'\n")
    report = xpu.look()
    assert (report.present, report.count, report.details) == (True, 2, {"torch_xpu": "20250301"})


def test_apples_gpu_is_in_its_own_chips_only(monkeypatch):
    present = []
    for place in (("Darwin", "arm64"), ("Linux", "aarch64"), ("Darwin", "x86_64")):
        monkeypatch.setattr(platform, "system", lambda place=place: place[0])
        monkeypatch.setattr(platform, "machine", lambda place=place: place[1])
        present.append(mps.look().present)
    assert present == [True, False, False]
