"""A configuration as Hydra composes it, for the tests of what is made of it."""

from omegaconf import OmegaConf

from accelbench.settings.compose import structure, typed

SETTINGS = {
    "engine": {"name": "lightning"},
    "device": {"name": "cpu"},
    "model": {"name": "mlp", "args": {"width": 8}},
    "data": {"name": "mnist"},
    "suite": {"name": "nets", "title": "Nets", "study": "001"},
    "tracking": {"name": "none"},
    "mode": "train",
    "precision": "bf16",
    "batch_size": 32,
    "protocol": "window",
    "epochs": 2,
}


def merged(*dotted):
    return typed(OmegaConf.merge(structure(), SETTINGS, OmegaConf.from_dotlist(list(dotted))))
