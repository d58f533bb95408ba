"""A composed configuration -> a frozen cell and the options of its sweep."""

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, TypeVar

from accelbench.errors import UserError
from accelbench.schema.cell import Cell, KerasSettings, Options, RunSettings, TrainerSettings
from accelbench.schema.vocab import (
    RANDOM,
    XLA,
    Augment,
    Device,
    Engine,
    KerasBackend,
    Library,
    Mode,
    Pipeline,
    Protocol,
    Scaling,
)
from accelbench.schema.workload import DataSpec, ModelSpec
from accelbench.settings import executors
from accelbench.settings.config import EngineConfig, RunConfig, SweepOptions
from accelbench.settings.limits import check
from accelbench.settings.own_code import check_arguments, checked_data, checked_model, value_word

T = TypeVar("T")


def cell_and_options(run: RunConfig) -> tuple[Cell, SweepOptions]:
    """The frozen cell of a composed configuration, and the options of its sweep.

    Raises:
        UserError: a value is out of range; the message names the flag.
    """
    check(run)
    model, data = checked_model(run), checked_data(run)
    check_arguments(run)
    executors.check(run.executor)
    run = _without_unused_settings(replace(run, model=model, data=data))
    options = _taken(
        SweepOptions,
        run,
        suite=run.suite.name,
        title=run.suite.title,
        study=run.suite.study,
        tracking=run.tracking.name,
        data_root=run.data.root,
    )
    return _cell(run), options


def _cell(run: RunConfig) -> Cell:
    weak = run.scaling == Scaling.weak
    return _taken(
        Cell,
        replace(run, batch_size=run.batch_size * (run.devices if weak else 1)),
        suite=run.suite.name,
        engine=run.engine.name,
        device=run.device.name,
        model=_taken(ModelSpec, run.model, network=None if run.model.network == run.model.name else run.model.network),
        data=_taken(DataSpec, run.data),
        xla_processes=bool(run.engine.xla_processes),
        options=_taken(Options, run),
        keras=_keras(run.engine, run.device.name),
        trainer=run.trainer if run.model.library == Library.lightning else None,
    )


def _taken(kind: type[T], settings: Any, **others: Any) -> T:
    """A `kind` whose fields are those of `settings`, but for `others`. OmegaConf makes lists of tuples."""
    values = {each.name: getattr(settings, each.name) for each in fields(kind) if each.name not in others}  # type: ignore[arg-type]
    return kind(**others, **{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})


def _keras(engine: EngineConfig, device: Device) -> KerasSettings | None:
    """The settings of Keras, None for another engine. For JAX, `jit_compile` is true unless it was given."""
    given = {name: value for name, value in vars(engine).items() if name != "name" and value is not None}
    for name, value in given.items():
        takes_it = Engine.lightning if name == "xla_processes" else Engine.keras
        if takes_it != engine.name:
            flag = f"engine.{name}={value_word(value)}"
            raise UserError(f"{flag}: goes with engine={takes_it}, and not with engine={engine.name}")
    if engine.name != Engine.keras:
        return None
    keras = KerasSettings(**{"jit_compile": given.get("backend") == KerasBackend.jax, **given})
    if device != Device.tpu:
        return replace(keras, tpu=KerasSettings.tpu)  # no effect here: the cell's id must not depend on it
    if keras.backend == KerasBackend.jax and keras.tpu != KerasSettings.tpu:
        problem = f"engine.tpu={keras.tpu}: JAX drives the TPU of its own machine"
        raise UserError(f"{problem}: use engine.tpu={KerasSettings.tpu}, or engine.backend=tensorflow")
    return keras


def _without_unused_settings(run: RunConfig) -> RunConfig:
    engine, model, data = run.engine, run.model, run.data
    if run.mode == Mode.infer:
        data = replace(data, augment=Augment.none)
        run = replace(run, trainer=TrainerSettings())
    if run.devices == 1:
        run = replace(run, scaling=RunSettings.scaling)
    if engine.name == Engine.lightning and (run.devices == 1 or run.device.name not in XLA):
        engine = replace(engine, xla_processes=None)
    if run.protocol == Protocol.fit:
        run = replace(run, breakdown_s=RunSettings.breakdown_s)
    if data.pipeline != Pipeline.jpeg:
        data = replace(data, num_workers=DataSpec.num_workers)
    if data.name != RANDOM or model.batch or model.library == Library.transformers:
        model = replace(model, input_shape=ModelSpec.input_shape, num_classes=ModelSpec.num_classes)
    return replace(run, engine=engine, model=model, data=data)


def repeated(cells: Iterable[Cell], num: int) -> list[Cell]:
    """Each cell `num` times, with `repeat` counted up: each repeat is a fresh process."""
    return [replace(cell, repeat=cell.repeat + more) for cell in cells for more in range(num)]
