import os
from pathlib import Path

import pytest


def test_processes_that_compute_on_a_gpu_are_named_with_their_memory(simulated):
    code = "from accelbench.devices import gpu; print(gpu.in_use(1))"
    others = {"SIMULATED_PROCESSES": f"0:{os.getpid()}:5000;1:7:100", "SIMULATED_UTILIZATION": "77"}
    name = Path("/proc/self/comm").read_text().strip()
    assert simulated("-c", code, **others) == f"77 % of GPU 0 was used by {name} (pid {os.getpid()}, 5.2 GB)\n"
    for idle in ({"SIMULATED_UTILIZATION": "0"}, {"SIMULATED_PROCESSES": ""}):
        assert simulated("-c", code, **(others | idle)) == "None\n"


@pytest.mark.slow
def test_a_cell_on_a_gpu_that_others_use_is_disturbed(simulated):
    others = {"SIMULATED_PROCESSES": "0:1:5000", "SIMULATED_UTILIZATION": "77", "ACCELBENCH_BUSY": ""}
    words = "model=mlp data=random device=gpu tracking=none quiet_s=0 window.measure_s=0.1 breakdown_s=0"
    printed = simulated("-m", "accelbench.cli", *words.split(), **others)
    assert "disturbed: 77 % of GPU 0 was used by" in " ".join(printed.split())
