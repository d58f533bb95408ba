"""The Lightning side of the twin networks. It runs in a separate process: TensorFlow and torch never share one."""

from dataclasses import replace

import numpy as np

from accelbench.schema.cell import Mode, ModelSpec
from engines.cells import FIT, MLP
from fakes import make_cell

NUM = 4
SEED = 3
# Name -> network, arguments, and shape of an image with the channels last.
CASES = {
    "mlp": ("mlp", {"widths": [32, 16]}, (28, 28)),
    "cnn": ("cnn", {"channels": 8}, (24, 32)),
    "cnn_in_colour": ("cnn", {"channels": 8}, (24, 32, 3)),
    "rnn": ("rnn", {"units": 16}, (6, 20)),
    "lstm": ("lstm", {"units": 16}, (6, 20)),
    "autoencoder": ("autoencoder", {"code": 4}, (10, 12)),
    "pets_cnn": ("pets_cnn", {}, (38, 30, 3)),
    "scaling_cnn": ("scaling_cnn", {"channels": [4, 8, 16], "hidden": 32}, (32, 24, 3)),
}
ARGS = {"widths": [32, 16], "dropout": 0.0}
RATES = {"sgd": 0.05, "adam": 1e-3}


def num_classes(name):
    return 2 if name.startswith("pets") else 10


def images(shape):
    return np.random.default_rng(SEED).integers(0, 256, (NUM, *shape)).astype(np.uint8)


def trained_cell(optimizer, **changes):
    """A cell with equal losses in both engines: only its weights and the order of its samples are random."""
    model = replace(MLP, args=ARGS, optimizer=optimizer, learning_rate=RATES[optimizer])
    return make_cell(**FIT | {"model": model, "seed": SEED, "epochs": 3, **changes})


def pytorch_side(digits, cases=CASES, optimizer="sgd"):
    """Case -> weights, outputs, losses, numbers of parameters and operations; and the results of training."""
    import torch

    from accelbench.engines.pytorch import engine, zoo  # isort: skip
    from accelbench.engines.pytorch.flops import count
    from accelbench.engines.pytorch.module import ImageTask

    results = {}
    for case, (name, args, shape) in cases.items():
        torch.manual_seed(SEED)
        model, task = ModelSpec(name=name, args=args), ImageTask(torch.float32, reconstructs=name == "autoencoder")
        network = zoo.build(model, first(shape), num_classes(name))
        for tensor in network.buffers():  # statistics of batch normalisation, which would be 0 and 1
            if tensor.is_floating_point():
                torch.nn.init.uniform_(tensor, 0.5, 1.5)
        pixels = torch.from_numpy(images(shape))
        labels = torch.arange(NUM) % num_classes(name)
        with torch.no_grad():
            output = network.eval()(task.inputs(pixels))
            results[f"{case}/loss"] = float(task.loss(output, task.inputs(pixels), labels))
        results[f"{case}/output"] = output.numpy()
        results[f"{case}/params"] = zoo.num_params(network)
        for index, tensor in enumerate(weights(network)):
            results[f"{case}/weight{index}"] = tensor.numpy()
        for train in (False, True):
            cell = make_cell(model=model, mode=Mode.train if train else Mode.infer)
            results[f"{case}/flops{int(train)}"] = count(cell, network, task, (pixels, labels)).flops
    cell = trained_cell(optimizer, threads=1)  # two threads would wait for each other while other tests run
    measured = engine.run(cell, digits)
    results[f"{optimizer}/losses"] = [epoch.loss for epoch in measured.epochs]
    results[f"{optimizer}/tested"] = [epoch.evaluation.loss for epoch in measured.epochs]
    results[f"{optimizer}/accuracies"] = [epoch.evaluation.accuracy for epoch in measured.epochs]
    torch.manual_seed(cell.seed)
    for index, tensor in enumerate(weights(zoo.build(cell.model, (28, 28), 10))):
        results[f"{optimizer}/weight{index}"] = tensor.numpy()
    return results


def first(shape):
    return (shape[2], *shape[:2]) if len(shape) == 3 else shape


def weights(network):
    """The tensors of a network, except counts of batches and second biases of recurrent layers, which stay 0."""
    named = network.state_dict().items()
    return [tensor for name, tensor in named if ".bias_hh" not in name and tensor.dim()]
