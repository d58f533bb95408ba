import subprocess
import sys

import pytest

from accelbench.devices import xla_cpu
from accelbench.devices.registry import look
from accelbench.schema.vocab import Device


@pytest.mark.parametrize("device", Device)
def test_every_device_is_present_or_says_why_not(device):
    report = look(device)
    assert report.device == device
    assert report.present is (report.reason is None)
    assert (report.count > 0) is report.present
    assert bool(report.name) is report.present


def test_the_cpu_is_there():
    assert look(Device.cpu).present


def test_xla_on_the_cpu_needs_torch_xla():
    missing = xla_cpu.look(find_version=lambda name: None)
    assert not missing.present
    assert "torch_xla is not installed" in missing.reason
    found = xla_cpu.look(find_version=lambda name: "2.9.0")
    assert found.present
    assert (found.device, found.details["torch_xla"]) == (Device.xla_cpu, "2.9.0")


def test_looking_imports_no_framework():
    code = (
        "import sys; from accelbench.devices.registry import look; from accelbench.schema.vocab import Device; "
        "[look(device) for device in Device]; "
        "print([name for name in ('torch', 'torch_xla', 'tensorflow', 'pytorch_lightning') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
