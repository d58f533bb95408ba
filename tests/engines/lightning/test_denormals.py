"""Denormal numbers: they are found where they are, and with the option all threads compute with 0 instead."""

import pytest
import torch
from torch import nn

from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.denormals import Denormals
from accelbench.engines.registry import host_spec
from accelbench.isolation.hosts import Hosts
from accelbench.schema.cell import Options
from accelbench.schema.vocab import Library, Mode, Status
from accelbench.schema.workload import ModelSpec
from fakes import make_cell

TINY_WEIGHTS = ModelSpec(name="TinyWeights", library=Library.custom, network="own_code.TinyWeights")
TINY = {torch.float32: 1e-39, torch.bfloat16: 1e-39, torch.float64: 1e-310}


def found(network, optimizer=None, batch=None):
    denormals = Denormals()
    denormals.look_at_weights(network, optimizer)
    if batch is not None:
        with denormals.looking_at_outputs(network):
            network(batch)
    network(torch.zeros_like(batch)) if batch is not None else None  # not looked at any more
    return denormals


@pytest.mark.parametrize("dtype", TINY)
def test_the_layer_with_most_denormal_weights_is_named_with_their_share(dtype):
    network = nn.Sequential(nn.Linear(10, 10, bias=False), nn.Linear(10, 10, bias=False)).to(dtype)
    with torch.no_grad():
        network[0].weight[0, 0] = TINY[dtype]
        network[1].weight[0, :3] = -TINY[dtype]
        network[1].weight[1] = 0.0
    assert found(network).worst == {"weights": (0.03, "1")}
    (warning,) = found(network).warnings()
    assert warning == (
        "3 % of the weights of 1 are denormal numbers, which slow a CPU down up to 30-fold: "
        "flush_denormals=true may be faster"
    )


def test_numbers_that_a_cpu_computes_with_at_full_speed_are_not_named():
    network = nn.Linear(10, 10)
    with torch.no_grad():
        network.weight[0] = torch.finfo(torch.float32).tiny
        network.weight[1] = 0.0
    assert found(network, batch=torch.randn(4, 10)).worst == {}
    half = nn.Linear(10, 10).to(torch.float16)
    nn.init.constant_(half.weight, 1e-7)  # computed with in fp32
    assert found(half).worst == {}


def test_outputs_and_the_optimisers_averages_are_looked_at_too():
    network = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    optimizer = torch.optim.Adam(network.parameters())
    network(torch.randn(8, 4)).sum().backward()
    optimizer.step()
    for state in optimizer.state.values():
        state["exp_avg"].fill_(1e-40)
    nn.init.constant_(network[0].weight, 1e-20)
    nn.init.zeros_(network[0].bias)
    seen = found(network, optimizer, torch.full((8, 4), 1e-20)).worst
    assert {kind: name for kind, (_, name) in seen.items()} == {"optimiser's state": "0", "outputs": "0"}
    assert seen["outputs"][0] == 1.0


def test_threads_that_computed_before_are_not_reached_and_found_out():
    torch.zeros(1 << 20).add_(1)
    if torch.get_num_threads() == 1:
        pytest.skip("this machine has one core")
    backend = Backend()
    assert backend.changed() == []
    try:
        backend.flush_denormals()
        assert backend.changed() == ["asked for flush_denormals=true, but a thread computed with denormal numbers"]
    finally:
        torch.set_flush_denormal(False)


@pytest.mark.slow
def test_a_cell_of_denormal_weights_is_warned_of_them_and_with_the_option_no_thread_computes_with_any(digits):
    flushing = Options(flush_denormals=True)
    with Hosts(host_spec) as hosts:
        for mode in Mode:
            plain, flushed = (
                hosts.run(make_cell(model=TINY_WEIGHTS, mode=mode, options=options), digits)
                for options in (Options(), flushing)
            )
            assert (plain.status, plain.reason) == (flushed.status, flushed.reason) == (Status.ok, None)
            found = [warning for warning in plain.measurement.warnings if "denormal" in warning]
            assert found[0].startswith("100 % of the weights of tiny are denormal numbers, which slow a CPU down")
            assert not any("denormal" in warning for warning in flushed.measurement.warnings)
