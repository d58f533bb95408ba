"""Networks of packages that `environments/models.in` names, small, and batches for them."""

import importlib

import torch


def image(batch_size, channels=3, side=32):
    return torch.randn(batch_size, channels, side, side)


def vectors(batch_size, width=16):
    return torch.randn(batch_size, width)


def sequences(batch_size, length=24, width=8):
    return torch.randn(batch_size, length, width)


def tokens(batch_size, length=24):
    return torch.randint(64, (batch_size, length))


def points(batch_size, num=12):
    return torch.randn(batch_size, num, 16), torch.randn(batch_size, num, 3)


def irreps(batch_size):
    return torch.randn(batch_size, 16 + 3 * 16), torch.randn(batch_size, 4)


def complex_images(batch_size):
    return torch.randn(batch_size, 1, 32, 32, dtype=torch.complex64)


def noisy(batch_size):
    return image(batch_size, side=16), torch.randint(100, (batch_size,))


def pictures_and_text(batch_size):
    return image(batch_size), torch.randint(64, (batch_size, 16))


def made(path, **args):
    """What a class or function of a package makes, which is imported when it is called."""
    module, _, name = path.rpartition(".")
    return lambda: getattr(importlib.import_module(module), name)(**args)


def transformer():
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=32, depth=2, heads=2, rotary_pos_emb=True)
    return TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=layers)


def snn():
    import snntorch
    from torch import nn

    fire = {"beta": 0.9, "init_hidden": True}
    return nn.Sequential(
        nn.Linear(16, 32), snntorch.Leaky(**fire), nn.Linear(32, 4), snntorch.Leaky(**fire, output=True)
    )


def flow():
    import normflows

    layers = [
        normflows.flows.AffineCouplingBlock(normflows.nets.MLP([8, 32, 16], init_zeros=False)),
        normflows.flows.Permute(16, mode="swap"),
    ]
    return normflows.NormalizingFlow(normflows.distributions.DiagGaussian(16), layers)


def clip():
    import open_clip.model

    vision = {"image_size": 32, "layers": 2, "width": 64, "patch_size": 8}
    text = {"context_length": 16, "vocab_size": 64, "width": 64, "heads": 2, "layers": 2}
    return open_clip.model.CLIP(embed_dim=32, vision_cfg=vision, text_cfg=text)


def equivariant():
    from e3nn.o3 import FullyConnectedTensorProduct, Irreps

    return FullyConnectedTensorProduct(Irreps("16x0e + 16x1o"), Irreps("1x0e + 1x1o"), Irreps("16x0e + 16x1o"))


def circuit():
    from ncps.torch import LTC
    from ncps.wirings import AutoNCP

    return LTC(8, AutoNCP(16, 4))


def complex_layers():
    from torch import nn
    from torchcvnn import nn as complex_nn

    return nn.Sequential(
        nn.Conv2d(1, 8, 3, dtype=torch.complex64),
        complex_nn.BatchNorm2d(8),
        complex_nn.modReLU(),
        nn.Conv2d(8, 4, 3, dtype=torch.complex64),
        complex_nn.Mod(),
    )


NETWORKS = {
    "denoising_diffusion": (made("denoising_diffusion_pytorch.Unet", dim=16, dim_mults=(1, 2)), noisy),
    "e3nn": (equivariant, irreps),
    "egnn": (made("egnn_pytorch.EGNN_Network", depth=2, dim=16, num_nearest_neighbors=4), points),
    "monai_swin": (
        made("monai.networks.nets.SwinUNETR", in_channels=1, out_channels=2, feature_size=12, spatial_dims=2),
        lambda size: image(size, 1, 64),
    ),
    "ncps": (circuit, sequences),
    "normflows": (flow, vectors),
    "open_clip": (clip, pictures_and_text),
    "performer": (
        made("performer_pytorch.PerformerLM", num_tokens=64, max_seq_len=24, dim=32, depth=2, heads=2, dim_head=16),
        tokens,
    ),
    "snntorch": (snn, vectors),
    "torchcvnn": (complex_layers, complex_images),
    "vector_quantize": (made("vector_quantize_pytorch.VectorQuantize", dim=8, codebook_size=32), sequences),
    "x_transformers": (transformer, tokens),
}


def build(name):
    make, _ = NETWORKS[name]
    return make()


def batch(batch_size, name):
    _, make = NETWORKS[name]
    return make(batch_size)
