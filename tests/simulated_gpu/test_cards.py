"""Which GPUs are there, which of them CUDA computes on, and who else uses them."""

import os

import pytest

CARDS = """
import ctypes, os
from accelbench.devices import gpu
os.environ |= gpu.IN_ORDER
runtime, num, name = ctypes.CDLL(None), ctypes.c_int(), ctypes.create_string_buffer(1 << 14)
runtime.cudaGetDeviceCount(ctypes.byref(num))
found = gpu.visible_gpus()
assert len(found) == num.value
for index, seen in enumerate(found):
    runtime.cudaGetDeviceProperties_v2(name, index)
    assert seen.name == name.value.decode(), (seen.name, name.value)
print([seen.name for seen in found], found[0].compute_capability)
"""
TWO = "NVIDIA T400:7.5:2000;NVIDIA H200:9.0:4000"  # in the order of the PCI bus


@pytest.mark.parametrize(
    ("wanted", "names", "capability"),
    [
        (None, ["NVIDIA T400", "NVIDIA H200"], (7, 5)),
        ("0", ["NVIDIA T400"], (7, 5)),
        ("1,0", ["NVIDIA H200", "NVIDIA T400"], (9, 0)),
        ("GPU-000000a1", ["NVIDIA H200"], (9, 0)),
        ("GPU-000000a0,GPU-000000a1", ["NVIDIA T400", "NVIDIA H200"], (7, 5)),
        ("MIG-00000001-0000-0000-0000-000000000000", ["NVIDIA T400 MIG 1g"], (7, 5)),
    ],
)
def test_cuda_and_nvml_number_unlike_cards_alike(simulated, wanted, names, capability):
    chosen = {} if wanted is None else {"CUDA_VISIBLE_DEVICES": wanted}
    assert simulated("-c", CARDS, SIMULATED_GPUS=TWO, **chosen).strip() == f"{names} {capability}"


IN_USE = "from accelbench.devices import gpu; print(gpu.in_use(1))"


def test_processes_that_compute_on_a_gpu_are_named_with_their_memory(simulated):
    others = {"SIMULATED_PROCESSES": f"0:{os.getpid()}:5000;1:7:100", "SIMULATED_UTILIZATION": "77"}
    with open("/proc/self/comm") as file:
        name = file.read().strip()
    told = simulated("-c", IN_USE, **others).strip()
    assert told == f"77 % of GPU 0 was used by {name} (pid {os.getpid()}, 5.2 GB)"
    for idle in ({"SIMULATED_UTILIZATION": "0"}, {"SIMULATED_PROCESSES": ""}):
        assert simulated("-c", IN_USE, **(others | idle)).strip() == "None"


@pytest.mark.slow
def test_a_cell_on_a_gpu_that_others_use_is_disturbed(simulated, tmp_path):
    others = {"SIMULATED_PROCESSES": "0:1:5000", "SIMULATED_UTILIZATION": "77", "ACCELBENCH_BUSY": ""}
    words = "model=mlp data=random device=gpu tracking=none quiet_s=0 window.measure_s=0.1 breakdown_s=0"
    assert "disturbed: 77 % of GPU 0 was used by" in " ".join(
        simulated("-m", "accelbench.cli", *words.split(), **others).split()
    )
