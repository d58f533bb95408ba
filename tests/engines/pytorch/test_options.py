"""Options change the network, but not its output."""

from functools import partial

import pytest
import torch
from torch import nn

from accelbench.devices.registry import look
from accelbench.engines.pytorch import engine, options, zoo
from accelbench.engines.pytorch.module import ImageTask
from accelbench.errors import UnsupportedError
from accelbench.grid.support import why_not
from accelbench.judging.verdict import judge
from accelbench.schema.cell import ModelSpec, Options
from accelbench.schema.vocab import Device, Library
from fakes import make_cell
from marks import IGNORES_LIGHTNINGS_WARNINGS, slow

pytestmark = [IGNORES_LIGHTNINGS_WARNINGS, pytest.mark.timeout(600)]
MLP = ModelSpec(name="mlp", args={"widths": [32, 32], "dropout": 0.0}, optimizer="sgd", learning_rate=0.05)
RESNET = ModelSpec(name="resnet18", library=Library.torchvision, input_shape=(3, 32, 32), num_classes=10)
# The reason if this machine can't compile; else None.
NO_COMPILER = why_not(make_cell(options=Options(compile=True)), look(Device.cpu))
compiles = pytest.mark.skipif(NO_COMPILER is not None, reason=str(NO_COMPILER))


def resnet_network():
    """A network in evaluation mode with random statistics: new statistics are 0 and 1, and would hide a wrong fold."""
    torch.manual_seed(0)
    network = zoo.build(RESNET, RESNET.input_shape, 10)
    for module in norms(network):
        for values in (module.running_mean, module.running_var, module.weight.data, module.bias.data):
            values.uniform_(0.5, 2)
    return network.eval()


def norms(network):
    return [module for module in network.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]


def test_folding_leaves_no_batch_normalisation_and_the_output_as_it_was():
    network, images = resnet_network(), torch.rand(4, 3, 32, 32)
    before = network(images)
    folded = options.prepared(network, Options(freeze=True))
    assert (len(norms(folded)), len(norms(network))) == (0, 20)
    assert torch.allclose(folded(images), before, rtol=1e-4, atol=1e-5)


def test_channels_last_is_how_weights_and_inputs_lie_in_memory():
    network = options.prepared(resnet_network(), Options(channels_last=True))
    weights = [module.weight for module in network.modules() if isinstance(module, nn.Conv2d)]
    assert weights
    assert all(weight.is_contiguous(memory_format=torch.channels_last) for weight in weights)
    images = torch.rand(4, 3, 32, 32)
    last = ImageTask(torch.float32, channels_last=True).inputs(images)
    assert last.is_contiguous(memory_format=torch.channels_last)
    assert not ImageTask(torch.float32).inputs(images).is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(last, images)


def test_an_option_that_has_nothing_to_change_is_refused():
    with pytest.raises(UnsupportedError, match="^freeze=true: no batch normalisation of the network can be folded"):
        options.prepared(nn.Linear(784, 10), Options(freeze=True))


@compiles
@pytest.mark.parametrize("backend", ["eager", slow("inductor")])  # inductor takes ten seconds
def test_a_compiled_network_gives_the_plain_ones_output_and_its_compilation_is_timed(digits, monkeypatch, backend):
    import torch._inductor.config  # a slow import

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    # Skips precompiled headers and the compiler's self-test: this network has only one kernel.
    with torch._inductor.config.patch({"cpp_cache_precompile_headers": False, "cpp.vec_isa_ok": True}):
        measured = engine.run(make_cell(model=MLP, options=Options(compile=True), timeout_s=300.0), digits)
    assert judge(make_cell(), measured) is None
    assert measured.num_compiles == 1
    assert 0 < measured.compile_s <= measured.first_step_s
    assert max(measured.warmup_s[1:]) < measured.compile_s
    assert measured.output_error < 1e-5
    assert measured.warnings == []
    assert measured.num_params == engine.run(make_cell(model=MLP), digits).num_params
