import pytest
import torch
from torch import nn
from torch.nn import functional

from accelbench.engines.pytorch import flops
from accelbench.engines.pytorch.flops import Counter
from accelbench.engines.pytorch.module import ImageTask
from accelbench.schema.cell import Mode, ModelSpec, Precision
from fakes import make_cell

SGD, ATTENTION = ModelSpec(name="x", optimizer="sgd"), functional.scaled_dot_product_attention


def counted(network, images, precision=Precision.fp32, *, train=False):
    """The work of one step on `images`. In training, all labels are 0."""
    batch = (images, torch.zeros(len(images), dtype=torch.int64)) if train else (images,)
    cell = make_cell(model=SGD, mode=Mode.train if train else Mode.infer, precision=precision)
    return flops.count(cell, network, ImageTask(flops.DTYPES[precision]), batch)


class Given(nn.Module):
    def __init__(self, function, *shape):
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.rand(shape))

    def forward(self, images):
        return self.function(images, self.weight)


def attends(**how):
    """Attention of 10 queries, each of 8 numbers, on as many keys; 2 samples of 4 heads."""
    return Given(lambda images, weight: ATTENTION(images @ weight, images, images, **how).flatten(1), 8, 8)


QUERIES, PRODUCT = 2 * 2 * 4 * 10 * 8 * 8, 2 * (2 * 4) * 10 * 10 * 8
LSTM = nn.LSTM(5, 7)
RECURRENT = Given(lambda images, weight: LSTM(images)[0].flatten(1), 1)
LAYERS = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
FROZEN = nn.Sequential(nn.Linear(5, 7).requires_grad_(False), *LAYERS[1:])
GROUPED = nn.Sequential(nn.Conv2d(3, 6, 1), nn.Conv2d(6, 6, 3, groups=6), nn.Flatten())
CONVOLUTION = 2 * 3 * 8 * (6 // 2) * 3 * 3 * (5 * 5)  # batch, outputs, inputs of a group, kernel, places


@pytest.mark.parametrize(
    ("network", "shape", "flops"),
    [
        (Given(lambda images, weight: images @ weight * torch.ones(7), 5, 7), (3, 5), 2 * 3 * 5 * 7),  # a constant
        (nn.Conv2d(6, 8, 3, stride=2, padding=1, groups=2), (3, 6, 9, 9), CONVOLUTION),
        (nn.ConvTranspose2d(4, 6, 3, stride=2), (2, 4, 5, 5), 2 * 2 * 4 * 6 * 9 * 25),  # each input, not output
        (Given(torch.matmul, 5), (3, 5), 2 * 3 * 5),
        (nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Flatten()), (2, 3, 4, 4), 0),
        (Given(lambda images, keys: ATTENTION(images, keys, keys), 2, 4, 6, 8), (2, 4, 10, 8), 2 * 8 * 10 * 6 * 16),
        (attends(is_causal=True), (2, 4, 10, 8), QUERIES + PRODUCT),  # half of the scores
        (RECURRENT, (3, 2, 5), 2 * 3 * 2 * 4 * 7 * (5 + 7)),
        (nn.Sequential(nn.Flatten(), nn.ReLU(), nn.LayerNorm(12), nn.Dropout(), nn.Softmax(1)), (2, 3, 4), 0),
    ],
)
def test_known_layers_exactly(network, shape, flops):
    work = counted(network, torch.rand(shape))
    assert (work.uncounted, work.flops) == ([], flops)


@pytest.mark.parametrize(
    ("network", "shape", "flops"),
    [
        (LAYERS, (4, 5), 2 * (2 * 4 * 5 * 7) + 3 * (2 * 4 * 7 * 3)),  # the images need no gradient
        (FROZEN, (4, 5), 2 * 4 * 5 * 7 + 2 * (2 * 4 * 7 * 3)),
        # Each gradient of a grouped convolution costs one forward pass.
        (GROUPED, (2, 3, 5, 5), 2 * (2 * 2 * 5 * 5 * 3 * 6) + 3 * (2 * 2 * 3 * 3 * 6 * 9)),
        # Attention computes its scores again.
        (attends(), (2, 4, 10, 8), 2 * QUERIES + (2 + 5) * PRODUCT),
        (attends(is_causal=True), (2, 4, 10, 8), 2 * QUERIES + (2 + 5) * PRODUCT // 2),
        # Three time steps of an LSTM. The gradient of its first state is not computed.
        (RECURRENT, (3, 2, 5), 2 * (2 * 3 * 2 * 4 * 7 * 5) + (3 + 3 + 2) * (2 * 2 * 4 * 7 * 7)),
    ],
)
def test_training_is_the_forward_pass_and_the_gradients_that_are_needed(network, shape, flops):
    assert counted(network, torch.rand(shape), train=True).flops == flops


@pytest.mark.parametrize(("precision", "size"), [(Precision.fp32, 4), (Precision.bf16, 2)])
def test_operators_read_their_inputs_and_write_their_outputs_once(precision, size):
    images = torch.rand(3, 5).to(flops.DTYPES[precision])
    work = counted(nn.Sequential(nn.Linear(5, 7), nn.Unflatten(1, (7, 1)), nn.ReLU()), images, precision)
    assert work.num_operators == 2  # the product with its bias, and ReLU
    assert work.bytes == size * ((3 * 5 + 5 * 7 + 7 + 3 * 7) + 2 * 3 * 7)


def test_an_operator_of_ones_own_makes_the_flops_unavailable():
    with torch.library._scoped_library("accelbench_test", "FRAGMENT") as library:
        library.define("doubled(Tensor x) -> Tensor")
        library.impl("doubled", lambda x: 2 * x, "CPU")
        network = Given(lambda images, weight: torch.ops.accelbench_test.doubled(images @ weight), 5, 7)
        # Without a rule for its shape, the step can't run with fake tensors.
        work = counted(network, torch.rand(3, 5))
        assert (work.flops, work.bytes, work.num_operators) == (None, None, None)
        assert "accelbench_test.doubled" in work.uncounted[0]
        library._register_fake("doubled", torch.empty_like)
        work = counted(network, torch.rand(3, 5))
    assert (work.flops, work.uncounted) == (None, ["accelbench_test.doubled"])
    assert (work.num_operators, work.bytes) == (2, 4 * (3 * 5 + 5 * 7 + 3 * 7) + 2 * 4 * 3 * 7)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda images, weight: torch.fft.rfft(images @ weight).abs(), "aten._fft_r2c"),
        (lambda images, weight: images if images.sum() > 0 else images @ weight, "DataDependentOutputException: "),
        (lambda images, weight: (_ for _ in ()).throw(ValueError("no\nsuch luck")), "ValueError: no such luck"),
    ],
)
def test_a_network_that_cannot_be_counted_says_why(function, reason):
    work = counted(Given(function, 5, 5), torch.rand(3, 5))
    assert work.flops is None
    assert work.uncounted[0].startswith(reason)


def test_the_parts_of_an_operator_are_cast_as_where_nobody_watches():
    left, right = torch.ones(4, 3), torch.ones(3, 5)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), Counter() as counter:
        product = torch.einsum("ij,jk->ik", left, right)  # autocast does not know einsum, but knows its parts
        with torch.autocast("cpu", enabled=False):
            exact = torch.einsum("ij,jk->ik", left, right)
    assert (product.dtype, exact.dtype) == (torch.bfloat16, torch.float32)
    assert counter.products.flops == {"bfloat16": 120, "float32": 120}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")  # newer releases of torch warn
def test_quantised_layers_multiply_in_int8():
    network = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(5, 7)), dtype=torch.qint8)
    with torch.no_grad(), Counter() as counter:
        network(torch.rand(3, 5))
    assert (counter.products.flops, counter.products.uncounted) == ({"int8": 2 * 3 * 5 * 7}, set())
