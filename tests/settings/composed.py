"""A configuration as Hydra composes it, for the tests of what is made of it."""

from dataclasses import replace

from omegaconf import OmegaConf

from accelbench.settings.compose import structure

CHOSEN = {"engine": "pytorch", "device": "cpu", "data": "mnist", "tracking": "none"}
SETTINGS = {group: {"name": name} for group, name in CHOSEN.items()}
SETTINGS |= {"model": {"name": "mlp", "args": {"width": 8}}}
SETTINGS |= {"suite": "nets", "mode": "train", "precision": "bf16"}
SETTINGS |= {"batch_size": 32, "protocol": "window", "epochs": 2}


def merged(*dotted):
    run = OmegaConf.to_object(OmegaConf.merge(structure(), SETTINGS, OmegaConf.from_dotlist(list(dotted))))
    return replace(run, words=dotted)
