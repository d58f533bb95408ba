"""Cells that serve requests with engines of PyTorch, in real processes or in this one."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from accelbench.engines.pytorch import engine
from accelbench.engines.served import blocks_of
from accelbench.errors import UserError
from accelbench.judging.row import summarise
from accelbench.schema.cell import EXPORTING, Engine, Protocol, Server
from accelbench.schema.measurement import Block
from accelbench.serving import server as serving
from engines.cells import MLP, measured, own_cell, ran
from engines.exported.test_engine import marked
from fakes import make_cell, make_record
from marks import slow

# While other tests run, requests are issued late. 1 % of this limit is longer than that.
SERVER = Server(rate=200.0, duration_s=0.5, latency_ms=60_000.0)
SERVES = {"protocol": Protocol.server, "server": SERVER, "batch_size": 4}


EXPORTS = [marked(engine, engine != Engine.onnxruntime) for engine in sorted(EXPORTING)]


@pytest.mark.parametrize("name", [slow(Engine.pytorch), *EXPORTS])
def test_a_cell_serves_and_its_output_is_checked(hosts, tmp_path, name):
    settings = {"threads": 2, "timeout_s": 300.0, "server": replace(SERVER, workers=2)}
    cell = own_cell("Tokens", "tokens", engine=name, **SERVES | settings)  # its inputs have names
    path = tmp_path / "a.requests.npy"
    measurement = ran(hosts, cell, tmp_path, requests=path)
    serving, times = measurement.serving, np.load(path)
    assert (measurement.defects, measurement.warnings, measurement.threads, measurement.blocks) == ([], [], 2, [])
    assert (serving.num_requests, serving.num_errors, serving.num_padded, serving.sizes) == (100, 0, 0, [])
    assert sum(int(size) * num for size, num in serving.batches.items()) == measurement.num_steady_samples == 100
    assert serving.requests_digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert times.shape == (4, 100)
    assert (times[3] > times[0]).all()
    began_s, ended_s = measurement.steady_boot_s
    assert ended_s - began_s == pytest.approx(serving.duration_s, abs=0.01)
    assert "outputs" in measurement.checked
    row = summarise(replace(make_record(), cell=cell, measurement=measurement))
    assert (row["samples_per_s"], row["flops_per_s"]) == (None, None)
    assert row["flops_per_sample"] > 0


def test_all_requests_at_once_are_a_speed(digits):
    cell = make_cell(model=MLP, **SERVES | {"protocol": Protocol.offline})
    measurement = measured(engine, cell, digits)
    assert sum(block.seconds for block in measurement.blocks) <= measurement.serving.duration_s
    assert summarise(replace(make_record(), cell=cell, measurement=measurement))["samples_per_s"] > 0


@pytest.mark.parametrize(
    ("batch", "how"), [("tokens", {"inputs": ("ids", "mask")}), ("ragged_tokens", {"collate": "own_code.padded"})]
)
def test_batches_of_any_structure_are_joined(tmp_path, batch, how):
    assert measured(engine, own_cell("Tokens", batch, **SERVES, **how), tmp_path).serving.num_errors == 0


@pytest.mark.parametrize(
    ("target", "batch"), [("Tokens", "ragged_tokens"), ("TwoInputs", "with_edges"), ("TwoInputs", "with_table")]
)
def test_what_cannot_be_joined_asks_for_a_function_that_does(tmp_path, target, batch):
    words = r"model\.batch=own_code\..*: single samples can't be joined along .* set model\.collate"
    with pytest.raises(UserError, match=words):
        engine.run(own_cell(target, batch, **SERVES), tmp_path)


def test_a_request_that_raises_is_counted(tmp_path):
    measurement = measured(engine, own_cell("Raises", "two_inputs", **SERVES | {"batch_size": 1}), tmp_path)
    assert 0 < measurement.serving.num_errors < 50
    assert measurement.num_steady_samples == 100 - measurement.serving.num_errors
    assert "no luck" in measurement.serving.error
    assert "its output was not checked: the model failed for some requests" in measurement.warnings


def test_the_output_is_checked_even_if_requests_still_waited_at_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "LONGEST_NS", 20_000_000)
    server = Server(rate=1e5, duration_s=1.0, latency_ms=1.0)
    measurement = engine.run(own_cell("TwoInputs", "two_inputs", **SERVES | {"server": server}), tmp_path)
    assert measurement.serving.num_errors > 0
    assert measurement.serving.error is None
    assert "outputs" in measurement.checked


def test_blocks_are_of_batches_that_follow_each_other():
    done = np.repeat(np.arange(1, 8) * 40_000_000, 4)  # 7 batches of 4 samples; each batch takes 40 ms
    assert blocks_of(done, 0) == [Block(num_steps=3, num_samples=12, seconds=0.12)] * 2
    assert blocks_of(done[:4], 0) == [Block(num_steps=1, num_samples=4, seconds=0.04)]
