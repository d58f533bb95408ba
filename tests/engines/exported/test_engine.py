"""Networks of PyTorch in engines that load exported networks. Each cell has its own process."""

import importlib.util
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from accelbench.engines.exported import engine as exporting
from accelbench.engines.exported.engine import MIN_CALIBRATED, Compiler, EngineReport
from accelbench.engines.pytorch import engine as pytorch
from accelbench.engines.pytorch import zoo
from accelbench.engines.registry import host_spec
from accelbench.grid.support import MODULES
from accelbench.judging.row import summarise
from accelbench.judging.verdict import judge
from accelbench.schema.cell import EXPORTING, Engine, Options, Precision, Protocol, Server, Status, Window
from engines.cells import FIT, MLP, measured, own_cell, ran
from fakes import make_cell, make_record, needs
from marks import slow

FLUSHING = Options(flush_denormals=True)
HAVE_FORMATS = (Engine.onnxruntime, Engine.openvino)  # AOTInductor does not report the formats of its operators


def marked(engine, slow=False):
    missing = [name for name in MODULES.get(engine, ()) if importlib.util.find_spec(name) is None]
    marks = [pytest.mark.skipif(bool(missing), reason=f"{missing} is not installed")]
    return pytest.param(engine, marks=[*marks, pytest.mark.slow] if slow or engine == Engine.aotinductor else marks)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", [marked(engine) for engine in sorted(EXPORTING)])
def test_a_network_runs_as_asked_and_gives_what_torch_gives(hosts, digits, engine):
    cell = make_cell(engine=engine, model=MLP, threads=1, timeout_s=300.0)  # compilation is slow on busy cores
    measurement = ran(hosts, cell, digits)
    observed = (measurement.device, measurement.precision, measurement.threads, measurement.warnings)
    assert observed == ("cpu", "fp32", 1, [])
    assert measurement.output_error < 1e-4  # from torch with the same weights
    assert measurement.num_params == zoo.num_params(zoo.build(MLP, (28, 28), 10))
    assert measurement.artifact_bytes > 4 * measurement.num_params
    if engine in HAVE_FORMATS:
        assert measurement.formats == {"float32": 3}
    row = summarise(replace(make_record(), cell=cell, measurement=measurement))
    assert (row["export_s"], row["compile_s"]) == (measurement.export_s, measurement.compile_s)
    assert min(row["export_s"], row["compile_s"]) > 0
    assert row["artifact_mb"] == measurement.artifact_bytes / 1e6
    assert row["flops_per_sample"] == 2 * (784 * 32 + 32 * 32 + 32 * 10)


@needs("openvino")
@pytest.mark.parametrize(
    ("target", "batch", "changes", "reason"),
    [
        ("honest.networks.ExitsEarly", "honest.networks.vectors", {}, "can't convert the network: .*data-dependent"),
        slow("OnlyFour", "two_inputs", {"protocol": Protocol.server}, r"for any batch size \(use server.max_batch=1"),
    ],
)
def test_a_network_that_cannot_be_exported_is_skipped_with_the_exporters_sentence(
    hosts, tmp_path, target, batch, changes, reason
):
    outcome = hosts.run(own_cell(target, batch, engine=Engine.openvino, **changes), tmp_path)
    assert outcome.status == Status.skipped
    assert re.match(f"torch.export {reason}", outcome.reason)


class InBf16(Compiler):
    """An engine that always runs the network in PyTorch and in this format."""

    dtype, ran_formats = torch.bfloat16, {}

    def quantized(self, exported, samples, folder):
        assert len(samples) * 32 >= MIN_CALIBRATED
        return exported

    def save(self, exported, folder):
        InBf16.program = exported
        return folder / "nothing"

    def load(self, path):
        self.network = self.program.module().to(self.dtype)

    def __call__(self, images):
        with torch.inference_mode():
            return [self.network((images.to(self.dtype),), {})[0].float()]

    def ran(self, inputs):
        return EngineReport(computed=str(self.dtype).removeprefix("torch."), threads=1, formats=self.ran_formats)


class Unquantized(InBf16):
    dtype, ran_formats = torch.float32, {"float32": 3}


def test_cells_share_an_export_only_if_it_is_the_same_network():
    cell = make_cell(engine=Engine.openvino, model=MLP)
    others = {"seed": 1, "batch_size": 16, "threads": 1, "precision": Precision.int8, "options": FLUSHING}
    others["model"] = replace(MLP, args={"widths": [16]})
    cells = [replace(cell, **{name: value}) for name, value in others.items()]
    cells += [replace(cell, engine=engine) for engine in EXPORTING]
    assert len({host_spec(cell).exported_as for cell in cells}) == len(cells)
    shares = replace(cell, repeat=1, window=Window(), breakdown_s=9.0, server=Server(rate=9.0, max_delay_ms=2.0))
    assert host_spec(shares).exported_as == host_spec(cell).exported_as


def test_a_cell_of_which_another_format_ran_is_invalid(digits, monkeypatch):
    monkeypatch.setattr(exporting, "compiler_of", InBf16)
    cell = make_cell(engine=Engine.openvino, model=MLP)
    measurement = exporting.run(cell, digits)
    assert judge(cell, measurement).startswith("asked for precision fp32, but bf16 ran")
    assert np.isfinite(measurement.output_error)
    cell = replace(cell, precision=Precision.int8)  # but nothing is quantised
    monkeypatch.setattr(exporting, "compiler_of", Unquantized)
    measurement = exporting.run(cell, digits)
    assert judge(cell, measurement) == "asked for precision int8, but fp32 ran"
    assert any("0 of 3 matrix products multiply integers" in note for note in measurement.notes)


@pytest.mark.parametrize("engine", [marked(engine, engine != Engine.openvino) for engine in HAVE_FORMATS])
def test_a_quantised_network_multiplies_integers_and_its_accuracy_stands_beside_fp32s(hosts, digits, tmp_path, engine):
    trained = tmp_path / "trained.safetensors"
    learning = replace(MLP, learning_rate=0.01)
    measured(pytorch, make_cell(**FIT | {"model": learning, "epochs": 8, "save_weights": True}), digits, trained)
    model = replace(MLP, weights=str(trained))
    # A quantiser may reset the thread, so that it does not flush any more.
    cell = make_cell(engine=engine, model=model, precision=Precision.int8, threads=1, options=FLUSHING)
    measurement = ran(hosts, cell, digits)
    assert measurement.precision == "int8"
    assert sum(measurement.formats.get(name, 0) for name in ("int8", "uint8")) == 3
    assert measurement.quantize_s > 0
    assert 0 < measurement.output_error < 0.2
    for note in ("3 of 3 matrix products multiply integers", "calibrated on 128 samples"):
        assert any(note in text for text in measurement.notes)
    assert measurement.answers.num_samples == 90
    row = summarise(replace(make_record(), cell=cell, measurement=measurement))
    assert row["accuracy"] == pytest.approx(row["fp32_accuracy"], abs=0.1)
    assert row["fp32_accuracy"] > 0.7
    assert row["accuracy_change_low"] <= row["accuracy"] - row["fp32_accuracy"] <= row["accuracy_change_high"]
    assert row["bytes_per_sample"] is None  # unknown, because only a part is quantised
