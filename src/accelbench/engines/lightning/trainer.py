"""Lightning's Trainer on each kind of device, and in each precision."""

import importlib
import logging
import warnings
from functools import partial
from typing import Any

from lightning_fabric.accelerators import XLAAccelerator
from lightning_utilities.core import rank_zero

from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.precision import MIXED, STORED_DTYPES, cast_module, stored_in
from accelbench.schema.vocab import Precision

HALF = {Precision.fp16: "16-true", Precision.bf16: "bf16-true"}
WORDS = {Precision.fp16_mixed: "16-mixed", Precision.bf16_mixed: "bf16-mixed"}


def hush_lightning() -> None:
    """Silences Lightning's warnings about what is intended here: predictions of None, training without validation.

    Its other ones stay warnings, whatever the user's code makes of warnings.
    """
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    rank_zero._warn = _warn


def _warn(message: str | Warning, stacklevel: int = 2, **kwargs: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        for note in ("predict returned None", "You defined a `validation_step`"):
            warnings.filterwarnings("ignore", message=note)
        warnings.warn(message, stacklevel=stacklevel + 1, **kwargs)


def trainer_for(package: str, precision: Precision, backend: Backend, **settings: Any) -> Any:
    """A Trainer from `package`, `pytorch_lightning` or `lightning.pytorch`, for the device and the precision."""
    # Else Lightning imports torch_xla to look for a TPU, whatever the device: that takes 1.5 s and replaces parts of
    # torch.nn.
    XLAAccelerator.is_available = staticmethod(lambda: False)
    connector: Any = importlib.import_module(f"{package}.trainer.connectors.callback_connector")
    connector._load_external_callbacks = lambda group: []  # those of installed packages would be timed
    left_out = dict.fromkeys(("enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    return importlib.import_module(package).Trainer(
        accelerator=backend.torch_type,
        num_sanity_val_steps=0,
        plugins=[plugin_for(precision, backend.torch_type, package)],
        **left_out,
        **settings,
    )


def plugin_for(precision: Precision, torch_type: str, package: str = "pytorch_lightning") -> Any:
    """The plugin of Lightning's `package` that computes in `precision` on `torch_type`, `cpu` or `cuda`."""
    # The Trainer's argument `precision=` substitutes silently: `16-mixed` on the CPU becomes `bf16-mixed`.
    plugins = importlib.import_module(f"{package}.plugins.precision")
    if precision in MIXED:
        return plugins.MixedPrecision(WORDS[precision], torch_type)
    if precision == Precision.fp64:
        return plugins.DoublePrecision()
    if precision in HALF:
        plugin = plugins.HalfPrecision(HALF[precision])
        plugin.convert_module = partial(cast_module, dtype=STORED_DTYPES[precision])  # its own drops imaginary parts
        return plugin
    plugin = plugins.Precision()
    plugin.convert_module = partial(stored_in, precision=precision)
    return plugin
