"""Scripts of a few lines that run a program of the table as its author would, without accelbench."""

import inspect
from contextlib import contextmanager, nullcontext, suppress

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from accelbench.schema.vocab import Mode, Precision

DTYPES = {Precision.fp64: torch.float64, Precision.bf16: torch.bfloat16}
NUM_STEPS = 5


@contextmanager
def default_dtype():
    """Puts back the default that a constructor may change."""
    before = torch.get_default_dtype()
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def cast(tensor, dtype):
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def batches(row, named):
    """Batches, each of which is made for one step."""
    make, dtype = named(row.more["batch"]), DTYPES.get(row.precision, torch.float32)
    for _ in range(NUM_STEPS):
        yield tree_map_only(Tensor, lambda tensor: cast(tensor, dtype), make(row.more.get("batch_size", 8)))


def called(network, batch):
    if isinstance(batch, dict):
        taken = inspect.signature(network.forward).parameters
        return network(**{name: value for name, value in batch.items() if name in taken})
    return network(*batch) if isinstance(batch, tuple | list) else network(batch)


def network_of(row, named):
    network = named(row.target)(**row.more.get("args", {}))
    if any(isinstance(each, nn.parameter.UninitializedParameter) for each in network.parameters()):
        called(network, next(batches(row, named)))
    network = {Precision.fp64: network.double, Precision.bf16: network.bfloat16}.get(row.precision, network.float)()
    is_mixed = row.precision == Precision.bf16_mixed
    return network, torch.autocast("cpu", torch.bfloat16) if is_mixed else nullcontext()


def inference(row, named):
    with default_dtype():
        network, context = network_of(row, named)
        with suppress(NotImplementedError):  # of an exported module
            network.eval()
        for batch in batches(row, named):
            with context:
                called(network, batch)


def training(row, named):
    more = row.more
    with default_dtype():
        network, context = network_of(row, named)
        loss_of, make = named(more.get("loss", "energy")), more.get("optimizer")
        parameters = [each for each in network.parameters() if each.requires_grad]
        optimizer = named(make)(parameters, 1e-3) if make else torch.optim.Adam(parameters, lr=1e-3)
        for batch in batches(row, named):

            def closure(batch=batch):
                optimizer.zero_grad()
                with context:
                    loss = loss_of(called(network, batch), batch)
                loss.backward()
                return loss

            if isinstance(optimizer, torch.optim.LBFGS):
                optimizer.step(closure)
            else:
                closure()
                optimizer.step()


def trainer(module, cell, named):
    data = named(cell.data.target.removeprefix("honest."))(cell.batch_size, **cell.data.args)
    runs = pl.Trainer(accelerator="cpu", max_steps=NUM_STEPS, barebones=True)
    if cell.mode == Mode.train:
        runs.fit(module, datamodule=data)
    else:
        runs.predict(module, datamodule=data)
