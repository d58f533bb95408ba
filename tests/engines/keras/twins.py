"""The Lightning side of the networks' twins, for a process of its own: TensorFlow is in no process with torch."""

import numpy as np

from accelbench.schema.vocab import Mode, Precision, Protocol
from accelbench.schema.workload import ModelSpec
from fakes import make_cell

NUM = 4
SEED = 3
# Name -> network, arguments and an image's shape, channels last.
CASES = {
    "mlp": ("mlp", {"widths": [32, 16]}, (28, 28)),
    "mlp_in_colour": ("mlp", {"widths": [32, 16], "dropout": 0.0}, (8, 8, 3)),
    "cnn": ("cnn", {"channels": 8}, (28, 28)),
    "cnn_in_colour": ("cnn", {"channels": 8}, (24, 32, 3)),
    "rnn": ("rnn", {"units": 16}, (6, 20)),
    "lstm": ("lstm", {"units": 16}, (6, 20)),
    "autoencoder": ("autoencoder", {"code": 4}, (10, 12)),
    "pets_cnn": ("pets_cnn", {}, (38, 30, 3)),
    "scaling_cnn": ("scaling_cnn", {"channels": [4, 8, 16], "hidden": 32}, (32, 24, 3)),
}
# The studies' own sizes, for the count of parameters.
WHOLE = dict.fromkeys(("mlp", "cnn", "rnn", "lstm", "autoencoder"), (28, 28))
WHOLE |= {"pets_cnn": (224, 224, 3), "scaling_cnn": (64, 64, 3)}
ARGS = {"widths": [32, 16], "dropout": 0.0}
RATES = {"sgd": 0.05, "adam": 1e-3}


def num_classes(name):
    return 2 if name.startswith("pets") else 10


def images(shape):
    return np.random.default_rng(SEED).integers(0, 256, (NUM, *shape)).astype(np.uint8)


def trained_cell(optimizer, **changes):
    """A cell whose losses both engines must agree on: nothing in it is drawn but its weights and its order."""
    model = ModelSpec(name="mlp", args=ARGS, optimizer=optimizer, learning_rate=RATES[optimizer])
    return make_cell(mode=Mode.train, protocol=Protocol.fit, model=model, seed=SEED, epochs=3, **changes)


def pytorch_side(digits, cases=CASES, optimizer="sgd"):
    """By case: weights, outputs, losses, counts of parameters and operations; and what training gave."""
    import torch

    from accelbench.engines.pytorch import engine, zoo  # isort: skip
    from accelbench.engines.pytorch.flops import count
    from accelbench.engines.pytorch.module import ImageTask

    results = {}
    for case, (name, args, shape) in cases.items():
        torch.manual_seed(SEED)
        model, task = ModelSpec(name=name, args=args), ImageTask(torch.float32, reconstructs=name == "autoencoder")
        network = zoo.build(model, first(shape), num_classes(name))
        for tensor in network.buffers():  # batch normalisation's, which would else be 0 and 1
            if tensor.is_floating_point():
                torch.nn.init.uniform_(tensor, 0.5, 1.5)
        pixels = torch.from_numpy(images(shape))
        labels = torch.arange(NUM) % num_classes(name)
        with torch.no_grad():
            output = network.eval()(task.inputs(pixels))
            results[f"{case}/loss"] = float(task.loss(output, task.inputs(pixels), labels))
        results[f"{case}/output"] = output.numpy()
        for index, tensor in enumerate(weights(network)):
            results[f"{case}/weight{index}"] = tensor.numpy()
        for train in (False, True):
            cell = make_cell(model=model, mode=Mode.train if train else Mode.infer, precision=Precision.fp32)
            results[f"{case}/flops{int(train)}"] = count(cell, network, task, (pixels, labels)).flops
    with torch.device("meta"):  # the shapes alone
        for name, shape in WHOLE.items():
            results[f"{name}/params"] = zoo.num_params(zoo.build(ModelSpec(name=name), first(shape), num_classes(name)))
    cell = trained_cell(optimizer, threads=1)  # beside other tests, two would wait for each other
    measured = engine.run(cell, digits)
    results[f"{optimizer}/losses"] = [epoch.loss for epoch in measured.epochs]
    results[f"{optimizer}/tested"] = [epoch.evaluation.loss for epoch in measured.epochs]
    results[f"{optimizer}/accuracies"] = [epoch.evaluation.accuracy for epoch in measured.epochs]
    torch.manual_seed(cell.seed)
    for index, tensor in enumerate(weights(zoo.build(cell.model, (28, 28), 10))):
        results[f"{optimizer}/weight{index}"] = tensor.numpy()
    return results


def first(shape):
    """The shape with its channels first."""
    return (shape[2], *shape[:2]) if len(shape) == 3 else shape


def weights(network):
    """All but the second biases of recurrent layers, which are held at zero, and counts of batches."""
    return [
        tensor
        for name, tensor in network.state_dict().items()
        if not name.rpartition(".")[2].startswith("bias_hh") and tensor.dim()
    ]
