"""One engine's plain script: `python -m bench.engines_side export|run ENGINE NETWORK BATCH_SIZE FOLDER`.

`export` exports the network into a folder, as the engine's documentation says. `run` loads it from there, runs it in a
loop, and prints samples/s: the median of blocks of the same length as accelbench's, after a warm-up. `run` imports
only the engine, because PyTorch's import takes longer than the loop.
"""

import itertools
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.blocks import steps_per_s

NUM_BATCHES = 8
WARMUP_S, BLOCK_S, MEASURE_S = 0.5, 0.2, 2.0
NUM_THREADS = len(os.sched_getaffinity(0))
Images = list[NDArray[np.float32]]


def main(what: str, engine: str, network: str, batch_size: str, folder: str) -> None:
    """Exports the network, or runs the loop."""
    num = int(batch_size)
    images = [random_images(num, index) for index in range(NUM_BATCHES)]
    if what == "run":
        step = {"onnxruntime": onnxruntime_step, "openvino": openvino_step, "aotinductor": aotinductor_step}[engine]
        print(num * steps_per_s(step(images, folder), WARMUP_S, BLOCK_S, MEASURE_S))
    else:
        export(engine, network, images[0], folder)


def random_images(num: int, seed: int) -> NDArray[np.float32]:
    """A batch of random images. Its memory begins at a multiple of 64 bytes, as that of PyTorch's tensors does."""
    values = np.random.default_rng(seed).standard_normal((num, 3, 224, 224), np.float32)
    memory = np.empty(values.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    aligned = memory[start : start + values.nbytes].view(np.float32).reshape(values.shape)
    aligned[:] = values
    return aligned


def export(engine: str, name: str, images: NDArray[np.float32], folder: str) -> None:
    """Writes the engine's file: network.onnx, network.xml (with weights in fp32) or network.pt2."""
    import timm
    import torch
    import torchvision

    torch.manual_seed(0)
    network = torchvision.models.resnet18() if name == "resnet18" else timm.create_model(name)
    network = network.eval()
    batch = (torch.from_numpy(images),)
    with torch.no_grad():
        if engine == "onnxruntime":
            torch.onnx.export(network, batch, f"{folder}/network.onnx", dynamo=True, verbose=False)
        elif engine == "openvino":
            import openvino

            converted = openvino.convert_model(torch.export.export(network, batch))
            openvino.save_model(converted, f"{folder}/network.xml", compress_to_fp16=False)
        else:
            exported = torch.export.export(network, batch)
            torch._inductor.aoti_compile_and_package(exported, package_path=f"{folder}/network.pt2")


def onnxruntime_step(images: Images, folder: str) -> Callable[[], Any]:
    """A function that calls `session.run`."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = NUM_THREADS
    session = onnxruntime.InferenceSession(f"{folder}/network.onnx", options, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    arrays = itertools.cycle(images)
    return lambda: session.run(None, {given.name: next(arrays)})


def openvino_step(images: Images, folder: str) -> Callable[[], Any]:
    """A function that calls `infer_request.infer`."""
    import openvino

    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": NUM_THREADS, "INFERENCE_PRECISION_HINT": "f32"}
    request = openvino.Core().compile_model(f"{folder}/network.xml", "CPU", settings).create_infer_request()
    arrays = itertools.cycle(images)
    return lambda: request.infer([next(arrays)], share_inputs=True, share_outputs=True)


def aotinductor_step(images: Images, folder: str) -> Callable[[], Any]:
    """A function that calls the compiled package."""
    import torch

    package = torch._inductor.aoti_load_package(f"{folder}/network.pt2")
    batches = itertools.cycle([torch.from_numpy(each) for each in images])
    return torch.inference_mode()(lambda: package(next(batches)))


if __name__ == "__main__":
    main(*sys.argv[1:])
