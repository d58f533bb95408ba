import operator

import pytest

from accelbench.errors import UserError
from accelbench.settings.limits import check
from settings.composed import merged


def checked(setting):
    """The settings, if they are in range."""
    settings = merged(setting)
    check(settings)
    return settings


@pytest.mark.parametrize(
    "setting",
    [
        "devices=0",
        "engine.steps_per_execution=0",
        "batch_size=0",
        "batch_size=-1",
        f"batch_size={2**63}",
        "epochs=0",
        "threads=0",
        "seed=-1",
        "repeat=-1",
        "window.warmup_steps=0",
        "window.warmup_s=-1.0",
        "window.latency_s=-0.5",
        "window.latency_steps=0",
        "timeout_s=0.0",
        "window.measure_s=0.0",
        "window.block_s=-1.0",
        "model.learning_rate=0.0",
        *[
            f"{name}={value}"
            for name in ("timeout_s", "window.measure_s", "window.warmup_s")
            for value in ("nan", "inf")
        ],
        "model.learning_rate=nan",
        "model.args.dropout=.nan",
    ],
)
def test_what_is_out_of_range_is_named(setting):
    name, _, value = setting.partition("=")
    with pytest.raises(UserError) as raised:
        checked(setting)
    assert str(raised.value).startswith(
        (f"{name}={value.lstrip('.')}: should be ", f"{name}={value.removesuffix('.0')}: should be ")
    )


@pytest.mark.parametrize(
    "setting", ["batch_size=1", "threads=1", "seed=0", "window.warmup_s=0.0", "window.latency_s=0.0", "timeout_s=0.1"]
)
def test_the_smallest_values_that_make_sense_are_accepted(setting):
    name, _, value = setting.partition("=")
    assert float(operator.attrgetter(name)(checked(setting))) == float(value)
