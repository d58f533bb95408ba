import dataclasses

from accelbench.schema.cell import Cell, KerasSettings, Options, Window
from accelbench.settings.config import (
    GROUPS,
    EngineConfig,
    Retry,
    RunConfig,
    SweepOptions,
    WindowConfig,
    differing_options,
)

OPTIONS = SweepOptions(suite="s", title="S", study=None, profile=None, tracking="none", out=None, retry=Retry.none)


def test_every_setting_of_a_cell_is_one_of_the_schema():
    schema = {field.name for field in dataclasses.fields(RunConfig)}
    settings = {field.name for kind in (Cell, Options) for field in dataclasses.fields(kind)}
    assert settings - {"options", "keras", "xla_processes"} <= schema
    keras = {field.name for field in dataclasses.fields(KerasSettings)}
    assert keras | {"name", "xla_processes"} == {field.name for field in dataclasses.fields(EngineConfig)}
    assert set(GROUPS) <= schema
    assert dataclasses.asdict(WindowConfig()) == dataclasses.asdict(Window())


def test_options_that_differ_are_named_but_for_those_of_the_suite():
    assert differing_options(OPTIONS, OPTIONS) == ""
    other = dataclasses.replace(OPTIONS, title="T", study="001", tracking="mlflow", repeats=2)
    assert differing_options(OPTIONS, other) == "tracking, repeats"
