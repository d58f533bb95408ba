import functools
import operator
from dataclasses import replace

import pytest

from accelbench.errors import UserError
from accelbench.settings.to_cell import check_limits as check
from settings.composed import merged


def checked(setting):
    """The settings, if they are in range."""
    settings = merged(setting)
    check(settings)
    return settings


@pytest.mark.parametrize(
    "setting",
    [
        *("devices=0", "engine.steps_per_execution=0", "batch_size=0", f"batch_size={2**63}", "epochs=0", "threads=0"),
        *("seed=-1", "repeat=-1", "window.warmup_steps=0", "window.warmup_s=-1.0", "window.latency_s=-0.5"),
        *("window.latency_steps=0", "window.latency_steps=1000001", "steps=1000001", "timeout_s=0.0"),
        *("window.measure_s=0.0", "window.block_s=-1.0", "model.learning_rate=0.0", "model.args.dropout=.nan"),
        *(f"{name}={value}" for name in ("timeout_s", "window.warmup_s") for value in ("nan", "inf")),
    ],
)
def test_what_is_out_of_range_is_named(setting):
    name, _, value = setting.partition("=")
    with pytest.raises(UserError) as raised:
        checked(setting)
    assert str(raised.value).startswith(
        (f"{name}={value.lstrip('.')}: should be ", f"{name}={value.removesuffix('.0')}: should be ")
    )


@pytest.mark.parametrize("setting", ["window.measure_s=601.0", "window.warmup_s=1e9"])
def test_what_takes_longer_than_a_cell_may_is_refused(setting):
    with pytest.raises(UserError, match=r"the cell is ended after 600 s \(timeout_s\)"):
        checked(setting)
    check(merged(setting, "timeout_s=1e10"))
    check(merged(setting, "protocol=fit"))


def test_the_smallest_values_that_make_sense_are_accepted():
    for setting in ("batch_size=1", "threads=1", "seed=0", "window.warmup_s=0.0", "timeout_s=0.1"):
        name, _, value = setting.partition("=")
        assert float(operator.attrgetter(name)(checked(setting))) == float(value)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            {"x": [99999999999999999999]},
            "model.args.x=99999999999999999999: should be at most 9223372036854775807",
        ),
        ({"x": [[float("inf")]]}, "model.args.x=inf: should be a finite number"),
        ({"x": "a\x1b[2J"}, r"model.args.x=a\\x1b\[2J: longer than 4000 characters, or with characters that can't"),
        ({"x": "y" * 5000}, "longer than 4000 characters"),
        ({"a\udcff": 1}, "characters that can't be shown"),
        (functools.reduce(lambda inner, _: {"a": inner}, range(60), {}), "nested deeper than 20"),
    ],
)
def test_an_argument_that_no_record_could_keep_is_refused(arguments, told):
    run = merged()
    run = replace(run, model=replace(run.model, args=arguments))
    with pytest.raises(UserError, match=told):
        check(run)


@pytest.mark.parametrize("name", ["../../x", ".x", "a/b"])
def test_a_sweeps_folder_is_named_after_its_suite(name):
    with pytest.raises(UserError, match="suite.name=.*: the name of a suite is that of a folder"):
        checked(f"suite.name={name}")
