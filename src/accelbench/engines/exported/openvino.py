"""The engine OpenVINO: converts a network of PyTorch to OpenVINO's format and runs it in OpenVINO's CPU plugin."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.export import ExportedProgram

from accelbench.engines.exported.engine import Compiler, EngineReport, Inputs, skipping, tensors_of
from accelbench.measuring.checks import computed_in
from accelbench.schema.cell import Precision

# Disables telemetry. Otherwise a conversion would fork processes that send reports while the cell runs.
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]

FILE, QUANTIZED = "network.xml", "quantized.xml"
# Precision -> OpenVINO's word for the format of computation. Without this word, OpenVINO uses 16 bits if the CPU can.
HINTS = {Precision.fp32: "f32", Precision.bf16: "bf16", Precision.fp16: "f16", Precision.int8: "f32"}
# OpenVINO's name of a format -> NumPy's name.
DTYPES = {
    "f32": "float32",
    "bf16": "bfloat16",
    "f16": "float16",
    "i8": "int8",
    "u8": "uint8",
    "f64": "float64",
}
# The plugin's names of layer types that compute matrix products.
ATTENTION = "ScaledDotProductAttention"
PRODUCTS = {"Convolution", "Deconvolution", "FullyConnected", "MatMul", "RNNSeq", "RNNCell", ATTENTION}


class Compiled(Compiler):
    """A network in OpenVINO, compiled for the cell's precision with one stream and one inference request."""

    def convert(self, program: ExportedProgram, folder: Path) -> Path:
        import openvino

        with skipping("openvino.convert_model"):
            converted = openvino.convert_model(program)
        openvino.save_model(converted, folder / FILE, compress_to_fp16=False)
        return folder / FILE

    def quantized(self, exported: Path, samples: Sequence[Inputs], folder: Path) -> Path:
        """Quantises the network with NNCF, as OpenVINO's documentation recommends."""
        import nncf
        import openvino

        path = folder / QUANTIZED
        network = openvino.Core().read_model(exported)
        # NNCF has a mode for transformers. Without it, the output of a vision transformer is wrong by half.
        has_attention = any(node.get_type_name() == ATTENTION for node in network.get_ops())
        kind = nncf.ModelType.TRANSFORMER if has_attention else None
        arrays = [_arrays(inputs) for inputs in samples]
        with skipping("NNCF"):
            quantized = nncf.quantize(network, nncf.Dataset(arrays), subset_size=len(arrays), model_type=kind)
        openvino.save_model(quantized, path, compress_to_fp16=False)
        for file in (exported, exported.with_suffix(".bin")):
            file.unlink()
        return path

    def load(self, path: Path) -> None:
        import openvino

        settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": 1,
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "INFERENCE_PRECISION_HINT": HINTS[self.cell.precision],
        }
        if self.cell.options.flush_denormals:
            settings["CPU_DENORMALS_OPTIMIZATION"] = True
        self.network = openvino.Core().compile_model(path, "CPU", settings)
        self.request = self.network.create_infer_request()

    def __call__(self, *args: Any, **kwargs: Any) -> Sequence[Tensor]:
        results = self.request.infer(_arrays((args, kwargs)), share_inputs=True, share_outputs=True)
        return [torch.from_numpy(array) for array in results.to_tuple()]

    def ran(self, inputs: Inputs) -> EngineReport:
        """Reads the layers and settings of the compiled network."""
        layers = [dict(node.get_rt_info().items()) for node in self.network.get_runtime_model().get_ops()]
        words = [
            _word(layer, "runtimePrecision") for layer in layers if _word(layer, "layerType") in PRODUCTS
        ]
        formats = Counter(DTYPES.get(word, word) for word in words)
        hint = str(self.network.get_property("INFERENCE_PRECISION_HINT").to_string())
        return EngineReport(
            computed=computed_in(formats) or DTYPES.get(hint, hint),
            threads=int(self.network.get_property("INFERENCE_NUM_THREADS")),
            formats=dict(formats),
        )


def _arrays(inputs: Inputs) -> list[NDArray[Any]]:
    return [tensor.numpy() for tensor in tensors_of(inputs)]


def _word(layer: Mapping[str, object], name: str) -> str:
    value = layer.get(name, "")
    return str(getattr(value, "value", value))
