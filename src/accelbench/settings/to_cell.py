"""The one step from a composed configuration to frozen cells."""

from collections.abc import Iterable
from dataclasses import asdict, replace

from omegaconf import DictConfig, OmegaConf

from accelbench.errors import UserError
from accelbench.schema.cell import Cell, DataSpec, KerasSettings, ModelSpec, Options, Window
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
    Weights,
)
from accelbench.settings.config import EngineConfig, RunConfig, SweepOptions
from accelbench.settings.limits import check


def split(config: DictConfig) -> tuple[Cell, SweepOptions]:
    """The frozen cell, and the sweep's options, of a composed configuration.

    Raises:
        UserError: a value is out of its range; the message names the flag.
    """
    run = OmegaConf.to_object(config)
    assert isinstance(run, RunConfig), "conf/config.yaml starts from the schema"
    check(run)
    _name_custom(run)
    _drop_idle(run)
    grows = run.scaling == Scaling.weak
    cell = Cell(
        suite=run.suite.name,
        engine=run.engine.name,
        device=run.device.name,
        model=ModelSpec(
            name=run.model.name,
            library=run.model.library,
            network=None if run.model.network == run.model.name else run.model.network,
            weights=run.model.weights,
            args=run.model.args,
            optimizer=run.model.optimizer.value,
            learning_rate=run.model.learning_rate,
            input_shape=tuple(run.model.input_shape),
            num_classes=run.model.num_classes,
        ),
        data=DataSpec(**asdict(run.data)),
        mode=run.mode,
        precision=run.precision,
        batch_size=run.batch_size * (run.devices if grows else 1),
        devices=run.devices,
        xla_processes=bool(run.engine.xla_processes),
        scaling=run.scaling,
        protocol=run.protocol,
        epochs=run.epochs,
        warmup=run.warmup,
        steps=run.steps,
        breakdown_s=run.breakdown_s,
        options=Options(
            channels_last=run.channels_last, compile=run.compile, freeze=run.freeze, cuda_graphs=run.cuda_graphs
        ),
        keras=_keras(run.engine, run.device.name),
        threads=run.threads,
        seed=run.seed,
        repeat=run.repeat,
        window=Window(**asdict(run.window)),
        timeout_s=run.timeout_s,
    )
    options = SweepOptions(
        suite=run.suite.name,
        title=run.suite.title,
        study=run.suite.study,
        profile=run.profile,
        tracking=run.tracking.name,
        out=run.out,
        retry=run.retry,
        repeats=run.repeats,
        verbose=run.verbose,
    )
    return cell, options


def _keras(engine: EngineConfig, device: Device) -> KerasSettings | None:
    """Keras' settings, None for Lightning; what was not given is as in `cell.KerasSettings`, and XLA compiles for JAX.

    Raises:
        UserError: a setting of another engine was given, or a TPU's name to JAX.
    """
    given = {name: value for name, value in vars(engine).items() if name != "name" and value is not None}
    for name, value in given.items():
        its = Engine.lightning if name == "xla_processes" else Engine.keras
        if its != engine.name:
            word = str(value).lower() if isinstance(value, bool) else value
            raise UserError(f"engine.{name}={word}: goes with engine={its}, and not with engine={engine.name}")
    if engine.name != Engine.keras:
        return None
    if device != Device.tpu:
        given.pop("tpu", None)  # it does nothing: the cell's id is without it
    elif engine.backend == KerasBackend.jax and given.get("tpu", KerasSettings.tpu) != KerasSettings.tpu:
        told = f"engine.tpu={engine.tpu}: JAX drives the TPU of its own machine"
        raise UserError(f"{told}: use engine.tpu={KerasSettings.tpu}, or engine.backend=tensorflow")
    return KerasSettings(**{"jit_compile": engine.backend == KerasBackend.jax, **given})


def _name_custom(run: RunConfig) -> None:
    """Has a network of the user's own be known by its class, unless it was given another name.

    Raises:
        UserError: it is not said which class, or it is for another model.
    """
    model = run.model
    if model.library != Library.custom:
        if model.target is not None:
            raise UserError(f"model.target={model.target}: goes with model=custom, and not with model={model.name}")
        return
    if not model.target or not all(part.isidentifier() for part in model.target.split(".")) or "." not in model.target:
        given = "is missing" if not model.target else f"{model.target} is none"
        raise UserError(
            f"model.target: should be the dotted path of a class, such as my_package.nets.MyNet; it {given}"
        )
    if model.weights != Weights.none:
        raise UserError(f"model.weights={model.weights}: a network of your own loads its own. Choose from: none.")
    model.network = model.target
    if model.name == Library.custom:
        model.name = model.target.rpartition(".")[2]


def _drop_idle(run: RunConfig) -> None:
    """Puts settings that do nothing in this cell back to their defaults: a cell's id is of what decides its numbers."""
    if run.mode == Mode.infer:
        run.data.augment = Augment.none
    if run.devices == 1:
        run.scaling = Cell.scaling
    if run.engine.name == Engine.lightning and (run.devices == 1 or run.device.name not in XLA):
        run.engine.xla_processes = None
    if run.protocol == Protocol.fit:
        run.breakdown_s = Cell.breakdown_s
    if run.data.pipeline != Pipeline.jpeg:
        run.data.num_workers = DataSpec.num_workers
    if run.data.name != RANDOM:
        run.model.input_shape, run.model.num_classes = list(ModelSpec.input_shape), ModelSpec.num_classes


def repeated(cells: Iterable[Cell], num: int) -> list[Cell]:
    """Each cell `num` times over, its `repeat` counted on: as many fresh processes of the same settings."""
    return [replace(cell, repeat=cell.repeat + more) for cell in cells for more in range(num)]
