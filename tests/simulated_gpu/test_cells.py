"""Cells on a simulated GPU, through the command line."""

import pytest

from marks import slow

GPT2 = "model=transformers model.name=gpt2 model.task=causal_lm model.args.n_layer=2 model.args.n_embd=32"
GPT2 += " model.args.n_head=2 model.args.vocab_size=100 batch_size=2"
PINNED = "input copied from pinned memory"


def all_ok(records, num):
    found = {label: (record["status"], record["reason"]) for label, record in records.items()}
    assert (set(found.values()), len(found)) == ({("ok", None)}, num), found
    for record in records.values():
        measured = record["measurement"]
        assert (measured["device"], measured["device_name"]) == ("gpu", "NVIDIA H200")
        assert measured["peak_device_bytes"] > 0
        assert measured["defects"] == []
    return [record["measurement"] for record in records.values()]


@pytest.mark.parametrize("mode", ["infer", slow("train")])
def test_dense_and_recurrent_networks_run_and_their_busiest_operators_have_kernels(sweep, mode):
    for measured in all_ok(sweep(f"model=mlp,lstm mode={mode}"), 2):
        names = [each["name"] for each in measured["operators"]]
        assert any(name in ("aten::addmm", "aten::_cudnn_rnn") for name in names), names
        assert sum(each["share"] for each in measured["operators"]) <= 1 + 1e-9


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


@pytest.mark.slow
def test_convolutions_train_and_infer_in_each_precision(sweep):
    all_ok(sweep("model=cnn mode=train,infer precision=tf32,bf16,bf16_mixed,fp16_mixed batch_size=8"), 8)


@pytest.mark.slow
def test_cuda_graphs_train(sweep):
    all_ok(sweep("model=cnn mode=train cuda_graphs=true batch_size=4"), 1)


@pytest.mark.slow
def test_a_language_model_trains_and_infers(sweep):
    all_ok(sweep(f"{GPT2} mode=train,infer model.batch_args.seq_len=16"), 2)


@pytest.mark.slow
def test_a_language_model_generates(sweep):
    all_ok(sweep(f"{GPT2} mode=generate generate.prompt_tokens=8 generate.new_tokens=4 data.pipeline=host,device"), 2)


@pytest.mark.slow
def test_an_own_network_infers(sweep):
    own = "model=custom model.target=gpu_networks.Own model.batch=gpu_networks.batch"
    all_ok(sweep(f"{own} mode=infer data.pipeline=fresh,host,device batch_size=8"), 3)


@pytest.mark.slow
def test_a_plain_network_runs_in_lightnings_loop(sweep):
    all_ok(sweep("model=mlp engine=lightning mode=train,infer batch_size=8"), 2)


@pytest.mark.slow
def test_a_lightning_module_trains_and_infers(sweep):
    all_ok(sweep("model=lightning model.target=gpu_networks.Lit mode=train,infer batch_size=8", data="data=module"), 2)


@pytest.mark.slow
def test_a_network_trains_to_a_target(sweep):
    words = "model=mlp protocol=target target.accuracy=0.2 epochs=2 data.train_images=1000"
    (measured,) = all_ok(sweep(words, data="data=mnist", brief=""), 1)
    assert measured["target"]["evaluations"]


@pytest.mark.slow
def test_a_batch_without_room_is_oom_and_the_largest_that_fits_is_found(simulated):
    small = {"SIMULATED_GPUS": "NVIDIA H200:9.0:200"}
    words = ["model=mlp", "data=random", "device=gpu", "tracking=none"]
    printed = simulated("-m", "accelbench.cli", *words, "batch_size=100000", status=1, **small)
    assert "oom" in printed
    search = ["best", "--largest-batch", "--budget", "5m", "batch_size=4096"]
    found = simulated("-m", "accelbench.cli", *search, *words, **small)
    assert "The largest batch that fits" in found


@pytest.mark.slow
def test_two_gpus_train_together(sweep):
    two = "NVIDIA H200:9.0:4000;NVIDIA H200:9.0:4000"
    (measured,) = all_ok(sweep("model=mlp devices=2 batch_size=32", SIMULATED_GPUS=two), 1)
    assert measured["num_devices"] == 2
