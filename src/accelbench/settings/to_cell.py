"""A composed configuration -> a frozen cell and the options of its sweep."""

from collections.abc import Iterable
from dataclasses import asdict, fields, replace

from accelbench.errors import UserError
from accelbench.schema.cell import Cell, KerasSettings, Options, TrainerSettings, Window
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
from accelbench.settings.config import EngineConfig, ModelConfig, RunConfig, SweepOptions, TrainerConfig
from accelbench.settings.limits import check
from accelbench.settings.own_code import check_arguments, check_data, check_model
from accelbench.settings.own_data import name_data

DATA_FIELDS = {each.name for each in fields(DataSpec)}


def cell_and_options(run: RunConfig) -> tuple[Cell, SweepOptions]:
    """The frozen cell of a composed configuration, which is changed meanwhile, and the options of its sweep.

    Raises:
        UserError: a value is out of range; the message names the flag.
    """
    check(run)
    check_model(run)
    check_data(run)
    check_arguments(run)
    executors.check(run.executor)
    name_data(run.data)
    _reset_unused_settings(run)
    return _cell(run), _options(run)


def _cell(run: RunConfig) -> Cell:
    return Cell(
        suite=run.suite.name,
        engine=run.engine.name,
        device=run.device.name,
        model=_model(run.model),
        data=DataSpec(**{name: value for name, value in asdict(run.data).items() if name in DATA_FIELDS}),
        mode=run.mode,
        precision=run.precision,
        batch_size=run.batch_size * (run.devices if run.scaling == Scaling.weak else 1),
        devices=run.devices,
        xla_processes=bool(run.engine.xla_processes),
        scaling=run.scaling,
        protocol=run.protocol,
        epochs=run.epochs,
        warmup=run.warmup,
        steps=run.steps,
        breakdown_s=run.breakdown_s,
        options=Options(**{each.name: getattr(run, each.name) for each in fields(Options)}),
        keras=_keras(run.engine, run.device.name),
        trainer=TrainerSettings(**asdict(run.trainer)) if run.model.library == Library.lightning else None,
        save_weights=run.save_weights,
        threads=run.threads,
        seed=run.seed,
        repeat=run.repeat,
        window=Window(**asdict(run.window)),
        timeout_s=run.timeout_s,
    )


def _model(model: ModelConfig) -> ModelSpec:
    return ModelSpec(
        name=model.name,
        library=model.library,
        network=None if model.network == model.name else model.network,
        factory=model.factory,
        weights=model.weights,
        args=model.args,
        task=model.task,
        batch=model.batch,
        batch_args=model.batch_args,
        inputs=tuple(model.inputs),
        loss=model.loss,
        samples=model.samples,
        tokens=model.tokens,
        optimizer=model.optimizer,
        learning_rate=model.learning_rate,
        constant=model.constant,
        output=model.output,
        input_shape=tuple(model.input_shape),
        num_classes=model.num_classes,
    )


def _options(run: RunConfig) -> SweepOptions:
    return SweepOptions(
        suite=run.suite.name,
        title=run.suite.title,
        study=run.suite.study,
        profile=run.profile,
        tracking=run.tracking.name,
        out=run.out,
        retry=run.retry,
        data_root=run.data.root,
        repeats=run.repeats,
        verbose=run.verbose,
        executor=run.executor,
    )


def _keras(engine: EngineConfig, device: Device) -> KerasSettings | None:
    """The settings of Keras, None for Lightning.

    Settings that the user did not give have the defaults of `cell.KerasSettings`; for JAX, `jit_compile` is true.

    Raises:
        UserError: a setting of the other engine was given, or the name of a TPU with JAX.
    """
    given = {name: value for name, value in vars(engine).items() if name != "name" and value is not None}
    for name, value in given.items():
        takes_it = Engine.lightning if name == "xla_processes" else Engine.keras
        if takes_it != engine.name:
            word = str(value).lower() if isinstance(value, bool) else value
            raise UserError(f"engine.{name}={word}: goes with engine={takes_it}, and not with engine={engine.name}")
    if engine.name != Engine.keras:
        return None
    if device != Device.tpu:
        given.pop("tpu", None)  # no effect here: the cell's id must not depend on it
    elif engine.backend == KerasBackend.jax and given.get("tpu", KerasSettings.tpu) != KerasSettings.tpu:
        problem = f"engine.tpu={engine.tpu}: JAX drives the TPU of its own machine"
        raise UserError(f"{problem}: use engine.tpu={KerasSettings.tpu}, or engine.backend=tensorflow")
    return KerasSettings(**{"jit_compile": engine.backend == KerasBackend.jax, **given})


def _reset_unused_settings(run: RunConfig) -> None:
    """Resets settings without effect in this cell to their defaults: equal cells must have equal ids."""
    if run.mode == Mode.infer:
        run.data.augment = Augment.none
        run.trainer = TrainerConfig()
    if run.devices == 1:
        run.scaling = Cell.scaling
    if run.engine.name == Engine.lightning and (run.devices == 1 or run.device.name not in XLA):
        run.engine.xla_processes = None
    if run.protocol == Protocol.fit:
        run.breakdown_s = Cell.breakdown_s
    if run.data.pipeline != Pipeline.jpeg:
        run.data.num_workers = DataSpec.num_workers
    if run.data.name != RANDOM or run.model.batch or run.model.library == Library.transformers:
        run.model.input_shape, run.model.num_classes = list(ModelSpec.input_shape), ModelSpec.num_classes


def repeated(cells: Iterable[Cell], num: int) -> list[Cell]:
    """Each cell `num` times, with `repeat` counted up: each repeat is a fresh process."""
    return [replace(cell, repeat=cell.repeat + more) for cell in cells for more in range(num)]
