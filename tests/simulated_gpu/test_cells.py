import os
from pathlib import Path

import pytest

from marks import slow

GPT2 = "model=transformers model.name=gpt2 model.task=causal_lm model.args.n_layer=2 model.args.n_embd=32"
GPT2 += " model.args.n_head=2 model.args.vocab_size=100 batch_size=2"
OWN = "model=custom model.target=honest.networks.Plain model.batch=honest.networks.vectors"
LIT = "model=lightning model.target=honest.modules.Lit data.target=honest.modules.Data"
TO_TARGET = "model=mlp protocol=target target.accuracy=0.2 epochs=2 data.train_images=1000"
PINNED = "input copied from pinned memory"
H200 = "NVIDIA H200:9.0:"
CARDS = {"SIMULATED_GPUS": f"NVIDIA T400:7.5:2000;{H200}4000"}  # CUDA's own order begins with the fastest card


def all_ok(records, num, name="NVIDIA H200"):
    found = {label: (record["status"], record["reason"]) for label, record in records.items()}
    assert (set(found.values()), len(found)) == ({("ok", None)}, num), found
    for record in records.values():
        measured = record["measurement"]
        assert (measured["device"], measured["device_name"]) == ("gpu", name)
        assert measured["peak_device_bytes"] > 0
        assert measured["defects"] == []
    return [record["measurement"] for record in records.values()]


def test_batches_are_pinned_unless_asked_otherwise_and_cuda_graphs_get_each_new_batch(sweep):
    records = sweep("model=mlp mode=infer data.pinned=true,false cuda_graphs=false,true")
    for measured in all_ok(records, 4):
        assert measured["output_error"] < 1e-5
    pageable = {label for label, record in records.items() if PINNED not in record["measurement"]["notes"]}
    assert pageable == {label for label in records if "pinned=false" in label}
    assert len(pageable) == 2


AFTER_CUDA = """
import torch, accelbench
from accelbench.schema.cell import Window
torch.ones(2, device="cuda").sum().item()
window = Window(measure_s=0.1, latency_s=0.05, warmup_s=0.05, latency_steps=10, block_s=0.02)
for function in (lambda: sum(range(10_000)), lambda: torch.ones(9).sum().item()):
    print(accelbench.measure(function, device="cpu", window=window).device)
try:
    accelbench.measure(lambda: torch.ones(2, device="cuda").sum().item(), device="cpu", window=window)
except accelbench.UserError as error:
    print(str(error)[:31])
network, batch = torch.nn.Linear(8, 4), torch.randn(16, 8)
print(accelbench.measure(network, batch, device="gpu", window=window).device)
"""


def test_what_runs_on_the_cpu_is_measured_after_cudas_start(simulated):
    assert simulated("-c", AFTER_CUDA).splitlines() == ["cpu", "cpu", "device='cpu': the function used", "gpu"]


@pytest.mark.parametrize(
    ("words", "num", "options"),
    [
        ("model=mlp,lstm mode=infer", 2, {}),
        slow("model=mlp,lstm mode=train", 2, {}),
        slow("model=cnn mode=train,infer precision=tf32,bf16,bf16_mixed,fp16_mixed batch_size=8", 8, {}),
        slow("model=cnn mode=train cuda_graphs=true batch_size=4", 1, {}),
        slow(f"{GPT2} mode=train,infer model.batch_args.seq_len=16", 2, {}),
        slow(f"{GPT2} mode=generate generate.prompt_tokens=8 generate.new_tokens=4 data.pipeline=host,device", 2, {}),
        slow(f"{OWN} mode=infer data.pipeline=fresh,host,device batch_size=8", 3, {}),
        slow("model=mlp engine=lightning mode=train,infer batch_size=8", 2, {}),
        slow(f"{LIT} mode=train,infer batch_size=8", 2, {"data": "data=module"}),
        slow(TO_TARGET, 1, {"data": "data=mnist", "brief": ""}),
        slow("model=mlp devices=2 batch_size=32", 1, {"SIMULATED_GPUS": f"{H200}4000;{H200}4000"}),
        ("model=mlp batch_size=8", 1, CARDS),
        slow("model=mlp batch_size=8", 1, CARDS | {"CUDA_VISIBLE_DEVICES": "GPU-000000a1,0"}),
    ],
)
def test_networks_of_each_kind_run_and_their_busiest_operators_have_kernels(sweep, words, num, options):
    for measured in all_ok(sweep(words, **options), num, "NVIDIA T400" if options is CARDS else "NVIDIA H200"):
        assert measured["num_devices"] == (2 if "devices=2" in words else 1)
        assert words != TO_TARGET or measured["target"]["evaluations"]
        shares = {operator["name"]: operator["share"] for operator in measured["operators"]}
        assert "lstm" not in words or {"aten::addmm", "aten::_cudnn_rnn"} & shares.keys()
        assert sum(shares.values()) <= 1 + 1e-9


@pytest.mark.slow
def test_a_batch_without_room_is_oom_and_the_largest_that_fits_is_found(simulated):
    words = ["model=mlp", "data=random", "device=gpu", "tracking=none"]
    small = {"SIMULATED_GPUS": f"{H200}200"}
    assert "oom" in simulated("-m", "accelbench.cli", *words, "batch_size=100000", status=1, **small)
    search = ["best", "--largest-batch", "--budget", "5m", "batch_size=4096"]
    assert "The largest batch that fits" in simulated("-m", "accelbench.cli", *search, *words, **small)


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
