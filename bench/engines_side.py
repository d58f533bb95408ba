"""One engine's plain script, in a process of its own: `python -m bench.engines_side ENGINE NETWORK BATCH_SIZE`.

It exports the network as the engine's documentation says, runs it in a loop, and prints samples/s: the median of blocks
of the same length as accelbench's, after a warm-up.
"""

import itertools
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from bench.custom_side import steps_per_s

NUM_BATCHES = 8
WARMUP_S, BLOCK_S, MEASURE_S = 0.5, 0.2, 2.0
NUM_THREADS = len(os.sched_getaffinity(0))


def main(engine: str, network: str, batch_size: str) -> None:
    """Runs the loop."""
    torch.manual_seed(0)
    num = int(batch_size)
    images = [torch.randn(num, 3, 224, 224) for _ in range(NUM_BATCHES)]
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        step = ENGINES[engine](built(network).eval(), images, folder)
        print(num * steps_per_s(step, WARMUP_S, BLOCK_S, MEASURE_S))


def built(network: str) -> nn.Module:
    """The network, from the library that has it."""
    if network == "resnet18":
        import torchvision

        found: nn.Module = torchvision.models.resnet18()
    else:
        import timm

        found = timm.create_model(network)
    return found


def onnxruntime(network: nn.Module, images: list[Tensor], folder: str) -> Callable[[], Any]:
    """A loop around `session.run`."""
    import onnxruntime

    torch.onnx.export(network, (images[0],), f"{folder}/network.onnx", dynamo=True, verbose=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = NUM_THREADS
    session = onnxruntime.InferenceSession(f"{folder}/network.onnx", options, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    arrays = itertools.cycle([batch.numpy() for batch in images])
    return lambda: session.run(None, {given.name: next(arrays)})


def openvino(network: nn.Module, images: list[Tensor], folder: str) -> Callable[[], Any]:
    """A loop around `infer_request.infer`."""
    import openvino

    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": NUM_THREADS, "INFERENCE_PRECISION_HINT": "f32"}
    converted = openvino.convert_model(torch.export.export(network, (images[0],)))
    request = openvino.Core().compile_model(converted, "CPU", settings).create_infer_request()
    arrays = itertools.cycle([batch.numpy() for batch in images])
    return lambda: request.infer([next(arrays)], share_inputs=True, share_outputs=True)


def aotinductor(network: nn.Module, images: list[Tensor], folder: str) -> Callable[[], Any]:
    """A loop around the package."""
    exported = torch.export.export(network, (images[0],))
    path = torch._inductor.aoti_compile_and_package(exported, package_path=f"{folder}/network.pt2")
    package = torch._inductor.aoti_load_package(path)
    batches = itertools.cycle(images)

    def step() -> object:
        with torch.inference_mode():
            return package(next(batches))

    return step


ENGINES = {"onnxruntime": onnxruntime, "openvino": openvino, "aotinductor": aotinductor}


if __name__ == "__main__":
    main(*sys.argv[1:])
