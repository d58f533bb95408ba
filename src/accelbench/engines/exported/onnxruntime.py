"""The engine ONNX Runtime: exports a network of PyTorch to ONNX and runs it in ONNX Runtime's CPU provider."""

import json
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.export import ExportedProgram

from accelbench.devices.cpu import has_fast_integers, look
from accelbench.engines.exported.engine import Compiler, EngineReport, Inputs, skipping, tensors_of
from accelbench.measuring.checks import computed_in

FILE, QUANTIZED = "network.onnx", "quantized.onnx"
ONLY_ERRORS = 3  # a log level of ONNX Runtime
# Matches the names of operators that compute matrix products, such as `QLinearConv` and `MatMulInteger`.
PRODUCTS = re.compile("Conv|Gemm|MatMul|LSTM|GRU|RNN|Attention")
# The operators that are quantised in a network with attention. If softmax, normalisation and GELU were quantised too,
# the output of a vision transformer would be wrong by half, and speed would not rise. In other networks, all supported
# operators are quantised, such as additions and pooling.
QUANTIZED_BESIDE_ATTENTION = ["Conv", "Gemm", "MatMul"]
# ONNX Runtime's name of a format -> NumPy's name, if they differ.
DTYPES = {"float": "float32", "double": "float64"}


class Compiled(Compiler):
    """A session of ONNX Runtime."""

    def convert(self, program: ExportedProgram, folder: Path) -> Path:
        with skipping("torch.onnx"):
            converted = torch.onnx.export(program, dynamo=True, verbose=False)
        assert converted is not None
        converted.save(folder / FILE, external_data=True)
        return folder / FILE

    def quantized(self, exported: Path, samples: Sequence[Inputs], folder: Path) -> Path:
        """Quantises the network in ONNX's QDQ format.

        In this format, the operators QuantizeLinear and DequantizeLinear surround each quantised operator. When a
        session loads the network, the session fuses them into one operator.
        """
        # x86 CPUs multiply unsigned activations by signed weights. Without VNNI they add the products in 16 bits, so
        # weights get only 7 bits (`reduce_range`): otherwise the sums would overflow.
        from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
        from onnxruntime.quantization.shape_inference import quant_pre_process

        prepared = folder / "prepared.onnx"
        path = folder / QUANTIZED
        with skipping("ONNX Runtime's quantiser"):
            quant_pre_process(
                str(exported), str(prepared), skip_symbolic_shape=True, save_as_external_data=True
            )
            quantize_static(
                str(prepared),
                str(path),
                _calibration(exported, samples),
                op_types_to_quantize=QUANTIZED_BESIDE_ATTENTION if _has_attention(prepared) else None,
                quant_format=QuantFormat.QDQ,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
                per_channel=True,
                use_external_data_format=True,
                reduce_range=not has_fast_integers(look()),
            )
        for file in folder.glob("*"):
            if not file.name.startswith(path.name):  # keeps the network and its weights: both names begin so
                file.unlink()
        return path

    def load(self, path: Path) -> None:
        self.path = path
        self.session = self._session()
        self.names = [tensor.name for tensor in self.session.get_inputs()]

    def _session(self, profile: str | None = None) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.inter_op_num_threads = 1
        options.log_severity_level = ONLY_ERRORS
        if self.cell.options.flush_denormals:
            options.add_session_config_entry("session.set_denormal_as_zero", "1")
        if profile is not None:
            options.enable_profiling, options.profile_file_prefix = True, profile
        return onnxruntime.InferenceSession(str(self.path), options, providers=["CPUExecutionProvider"])

    def __call__(self, *args: Any, **kwargs: Any) -> Sequence[Tensor]:
        return [
            torch.from_numpy(array) for array in self.session.run(None, _named(self.names, (args, kwargs)))
        ]

    def ran(self, inputs: Inputs) -> EngineReport:
        """Runs the network once in a second session, and reads the profile of this run.

        Reads the number of threads from the measured session.
        """
        with tempfile.TemporaryDirectory(prefix="profile-") as folder:
            session = self._session(f"{folder}/run")
            session.run(None, _named(self.names, inputs))
            events = json.loads(Path(session.end_profiling()).read_text())
        kernels = [
            event for event in events if event["cat"] == "Node" and event["name"].endswith("_kernel_time")
        ]
        products = [kernel["args"] for kernel in kernels if PRODUCTS.search(kernel["args"]["op_name"])]
        formats = Counter(map(_format, products))
        return EngineReport(
            computed=computed_in(formats) or "float32",
            threads=self.session.get_session_options().intra_op_num_threads,
            formats=dict(formats),
        )


def _has_attention(path: Path) -> bool:
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    outputs = {tensor.name for tensor in graph.output}
    return any(node.op_type == "Softmax" and outputs.isdisjoint(node.output) for node in graph.node)


def _calibration(path: Path, samples: Sequence[Inputs]) -> Any:
    """A reader of calibration batches for ONNX Runtime's quantiser."""
    import onnx

    names = [tensor.name for tensor in onnx.load(path, load_external_data=False).graph.input]
    batches = iter([_named(names, inputs) for inputs in samples])
    return SimpleNamespace(
        get_next=lambda: next(batches, None), set_range=lambda start_index, end_index: None
    )


def _named(names: Sequence[str], inputs: Inputs) -> dict[str, NDArray[Any]]:
    return dict(zip(names, [tensor.numpy() for tensor in tensors_of(inputs)], strict=True))


def _format(kernel: Mapping[str, Any]) -> str:
    (name,) = kernel["input_type_shape"][0]
    return str(DTYPES.get(name, name))
