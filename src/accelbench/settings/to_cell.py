"""A composed configuration -> a frozen cell and the options of its sweep, once every setting's limits are checked."""

import math
from dataclasses import fields, replace
from typing import Annotated, Any, TypeVar, get_args, get_origin

from msgspec import Meta

from accelbench.devices import interpreters
from accelbench.devices.cpu import usable_cores
from accelbench.engines.images import why_unfit
from accelbench.errors import UnknownChoiceError, UserError
from accelbench.schema import vocab
from accelbench.schema.cell import (
    ACCURACY,
    LOSS,
    MAX_STEPS,
    METRIC,
    UNUSED,
    Cell,
    KerasSettings,
    Options,
    RunSettings,
    Server,
    Target,
    TrainerSettings,
)
from accelbench.schema.serialize import canonical_json, safe
from accelbench.schema.setting import Declared, declared
from accelbench.schema.text import MAX_TEXT
from accelbench.schema.workload import SHAPES, DataSpec, ModelSpec
from accelbench.settings.config import EngineConfig, Executor, LrScale, RunConfig, SweepOptions, check_executor
from accelbench.settings.own_code import SEQ_LEN, checked, refuse
from accelbench.settings.suites import PATHS

T = TypeVar("T")

LARGEST_QUERY = {vocab.Protocol.single_stream: 1, vocab.Protocol.multi_stream: 8}  # samples that are there at once
DECLARED = tuple(declared(RunConfig))


def cell_and_options(run: RunConfig) -> tuple[Cell, SweepOptions]:
    """The frozen cell of a composed configuration, and the options of its sweep.

    Raises UserError: a value is out of range; the message names the flag.
    """
    check_limits(run)
    check_executor(run.executor)
    run = replace(checked(run), python=run.python and interpreters.other(run.python))
    if run.python is not None and run.executor.name != Executor.local:
        raise UserError(f"python={run.python}: is on this machine: use executor=local")
    _check_made_for(run)
    _check_serving(run)
    _check_target(run)
    _check_generation(run)
    run = _without_unused_settings(run)
    options = _taken(
        SweepOptions,
        run,
        title="Runs from the command line",
        study=None,
        tracking=run.tracking.name,
        data_root=run.data.root,
        is_auto=run.device.is_auto,
        waits_s=None,
        ends_after_s=None,
    )
    weak = run.scaling == vocab.Scaling.weak
    cell = _taken(
        Cell,
        replace(run, batch_size=run.batch_size * (run.devices if weak else 1)),
        engine=run.engine.name,
        device=run.device.name,
        model=_taken(
            ModelSpec,
            run.model,
            learning_rate=_learning_rate(run),
            network=None if run.model.network == run.model.name else run.model.network,
            input_shape=tuple(run.model.input_shape or ModelSpec.input_shape),
        ),
        data=_taken(DataSpec, run.data),
        xla_processes=run.engine.xla_processes,
        options=_taken(Options, run),
        keras=_keras(run.engine, run.device.name),
        trainer=run.trainer if run.model.library == vocab.Library.lightning else None,
    )
    return cell, options


def _taken(kind: type[T], settings: Any, **others: Any) -> T:
    """A `kind` whose fields are those of `settings`, but for `others`. OmegaConf makes lists of tuples."""
    values = {each.name: getattr(settings, each.name) for each in fields(kind) if each.name not in others}  # type: ignore[arg-type]
    return kind(**others, **{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})


def _learning_rate(run: RunConfig) -> float:
    """The rate at the cell's batch, by the rule of `optimizer.scale`."""
    # Linear: Goyal et al., Accurate, Large Minibatch SGD, 2017; square root: Krizhevsky, One weird trick, 2014.
    scale, model = run.optimizer.scale, run.model
    if scale == LrScale.none:
        return model.learning_rate
    if run.mode != vocab.Mode.train or model.library == vocab.Library.lightning:
        what = "a LightningModule has its own rate" if run.mode == vocab.Mode.train else f"mode={run.mode} has no rate"
        raise UserError(f"optimizer.scale={scale}: {what}: use optimizer.scale=none")
    ratio = run.batch_size / model.batch_size
    return float(f"{model.learning_rate * (ratio if scale == LrScale.linear else math.sqrt(ratio)):.6g}")


def _keras(engine: EngineConfig, device: vocab.Device) -> KerasSettings | None:
    """The settings of Keras, None for another engine. For JAX, `jit_compile` is true unless it was given."""
    for field in fields(engine):
        takes_it = vocab.ON_TORCH if field.name == "xla_processes" else (vocab.Engine.keras,)
        if field.name != "name" and engine.name not in takes_it:
            words = " or ".join(f"engine={word}" for word in vocab.Engine if word in takes_it)
            refuse("engine", engine, f"goes with {words}, and not with engine={engine.name}", field.name)
    if engine.name != vocab.Engine.keras:
        return None
    on_jax = engine.backend == vocab.KerasBackend.jax
    keras = _taken(KerasSettings, engine, jit_compile=on_jax if engine.jit_compile is None else engine.jit_compile)
    if device != vocab.Device.tpu:
        return replace(keras, tpu=KerasSettings.tpu)  # no effect here: the cell's id must not depend on it
    if on_jax and keras.tpu != KerasSettings.tpu:
        problem = f"engine.tpu={keras.tpu}: JAX drives the TPU of its own machine"
        raise UserError(f"{problem}: use engine.tpu={KerasSettings.tpu}, or engine.backend=tensorflow")
    return keras


def _without_unused_settings(run: RunConfig) -> RunConfig:
    """The defaults of settings that have no effect in this cell: its id must not depend on them."""
    engine, model, data = run.engine, run.model, run.data
    if run.mode == vocab.Mode.infer:
        data = replace(data, augment=vocab.Augment.none, train_images=None)
        run = replace(run, trainer=TrainerSettings())
    if run.mode == vocab.Mode.generate:
        model = replace(model, batch_args={})
    if run.devices == 1:
        run = replace(run, scaling=RunSettings.scaling)
    if engine.name in vocab.ON_TORCH and (run.devices == 1 or run.device.name not in vocab.XLA):
        engine = replace(engine, xla_processes=False)
    if run.protocol in vocab.EPOCHS:
        run = replace(run, breakdown_s=RunSettings.breakdown_s)
    if run.protocol == vocab.Protocol.target:
        fixed: dict[str, Any] = (
            {"every": Target.every, "every_steps": None} if run.target.definition == vocab.Definition.fixed else {}
        )
        run = replace(run, target=replace(run.target, lower=run.target.is_lower, **fixed))
    if run.protocol in vocab.SERVING:
        size = run.server.max_batch or run.batch_size
        size = min(size, LARGEST_QUERY.get(run.protocol, size))
        unused = {name: getattr(Server(), name) for name in ("max_batch", *UNUSED[run.protocol])}
        run = replace(run, batch_size=size, server=replace(run.server, **unused))
        run = replace(run, breakdown_s=RunSettings.breakdown_s, budget_s=RunSettings.budget_s)
    else:
        model = replace(model, collate=None)
    if data.pipeline != vocab.Pipeline.jpeg:
        data = replace(data, num_workers=DataSpec.num_workers)
    if data.name != vocab.RANDOM or model.batch or model.library == vocab.Library.transformers:
        model = replace(model, input_shape=ModelSpec.input_shape, num_classes=ModelSpec.num_classes)
    return replace(run, engine=engine, model=model, data=data)


def _check_made_for(run: RunConfig) -> None:
    """Raises a UserError if a study's network would have other parameters on this data set's images."""
    # Pictures and arrays of the user's own are in no study.
    model, data = run.model, run.data.name
    if model.library != vocab.Library.accelbench or model.input_shape is None or data not in SHAPES:
        return
    made_for, shape = tuple(model.input_shape), SHAPES[data]
    if made_for == shape or why_unfit(_taken(ModelSpec, model), shape, data):  # of which the plan says it
        return
    fitting = [f"data={name}" for name, other in SHAPES.items() if other == made_for] or [f"data={vocab.RANDOM}"]
    texts, words = [" x ".join(map(str, each)) for each in (made_for, shape)], ",".join(map(str, shape))
    raise UserError(
        f"model={model.name} is made for images of {texts[0]}, data={data} has {texts[1]}: use {' or '.join(fitting)}. "
        f"To measure the network of other parameters that it is there: 'model.input_shape=[{words}]'"
    )


def _check_serving(run: RunConfig) -> None:
    """Raises a UserError if requests can't be served as is asked for, or if the protocol serves none."""
    server, protocol = run.server, run.protocol
    if protocol not in vocab.SERVING:
        goes_with = f"goes with protocol={', '.join(sorted(vocab.SERVING))}, and not with protocol={protocol}"
        refuse("server", server, goes_with)
        return
    if run.mode != vocab.Mode.infer:
        raise UserError(f"mode={run.mode}: protocol={protocol} serves requests: use mode=infer")
    is_here = run.executor.name == Executor.local
    threads = run.threads or (usable_cores() if is_here else server.workers)
    if server.workers > threads:
        raise UserError(f"server.workers={server.workers}: they share the threads: use at most {threads}")
    if run.timeout_s < (enough_s := math.ceil(1.5 * server.duration_s)):
        asked = f"timeout_s={run.timeout_s:g}: is short for server.duration_s={server.duration_s:g}"
        raise UserError(f"{asked}: use timeout_s={enough_s}")
    if protocol != vocab.Protocol.server:
        return
    from accelbench.serving.batcher import num_requests  # these import numpy
    from accelbench.stats.regenerative import num_requests_for

    num, least = num_requests(server), num_requests_for(server.percentile)
    if num < least:
        few = f"server.rate={server.rate:g} gives {num:,} requests in server.duration_s={server.duration_s:g}"
        longer = f"use server.duration_s={math.ceil(least / server.rate)}"
        raise UserError(f"server.percentile={server.percentile:g}: takes {least:,} requests, and {few}: {longer}")


def _check_target(run: RunConfig) -> None:
    """Raises a UserError if no training can reach the target, or if the protocol has none."""
    target = run.target
    if run.protocol != vocab.Protocol.target:
        goes_with = f"goes with protocol=target, and not with protocol={run.protocol}"
        refuse("target", target, goes_with)
        refuse("model", run.model, goes_with, "metric")
        return
    if run.mode != vocab.Mode.train:
        raise UserError(f"mode={run.mode}: protocol=target trains: use mode=train")
    if run.data.name == vocab.RANDOM:
        raise UserError(f"data={vocab.RANDOM}: nothing can be learnt from it: for protocol=target use a data set")
    known = [ACCURACY, LOSS, *([METRIC] if run.model.metric else [])]
    if target.metric not in known and run.model.library != vocab.Library.lightning:
        if target.metric == METRIC:
            raise UserError("target.metric=metric: needs model.metric, the dotted path of your own function")
        raise UnknownChoiceError("target.metric", target.metric, known)
    needed, other = ("accuracy", "value") if target.metric == ACCURACY else ("value", "accuracy")
    if getattr(target, needed) is None:
        raise UserError(f"protocol=target: needs target.{needed}, which is what {target.metric} is to reach")
    if getattr(target, other) is not None:
        raise UserError(f"target.{other}: goes with another target.metric than {target.metric}: use target.{needed}")
    if target.validation >= 1:
        raise UserError(f"target.validation={target.validation:g}: leaves nothing to train on: use less than 1")


def _check_generation(run: RunConfig) -> None:
    """Raises a UserError if the network can't generate, or if the mode does not."""
    mode, model, generate = f"mode={run.mode}", run.model, run.generate
    if run.mode != vocab.Mode.generate:
        refuse("generate", generate, f"goes with mode=generate, and not with {mode}")
        return
    if model.library != vocab.Library.transformers:
        raise UserError(f"{mode}: model={model.name} is no causal language model: use model=transformers")
    if model.task != vocab.Task.causal_lm:
        raise UserError(f"model.task={model.task}: {mode} continues texts: use model.task={vocab.Task.causal_lm}")
    if run.protocol not in (vocab.Protocol.window, vocab.Protocol.steps):
        raise UserError(f"protocol={run.protocol}: {mode} repeats generations: use protocol=window or steps")
    if model.batch_args != {"seq_len": SEQ_LEN}:
        raise UserError(f"model.batch_args.seq_len: {mode} has generate.prompt_tokens and generate.new_tokens instead")
    if run.protocol == vocab.Protocol.steps and run.steps * generate.new_tokens > MAX_STEPS:
        most = MAX_STEPS // generate.new_tokens
        raise UserError(f"steps={run.steps}: a record keeps the times of {MAX_STEPS:,} tokens: use at most {most}")


def check_limits(run: RunConfig) -> None:
    """Checks every setting's limits. Raises UserError, which names the flag and the range: a value is out of it."""
    data = run.data
    is_random = data.name == vocab.RANDOM
    fitting = [each for each in vocab.Pipeline if (each in vocab.RANDOM_IMAGE_PIPELINES) == is_random]
    if data.pipeline not in fitting:
        raise UserError(f"data.pipeline={data.pipeline}: not for data={data.name}. Choose from: {', '.join(fitting)}.")
    if is_random and data.augment != vocab.Augment.none:
        raise UserError(f"data.augment={data.augment}: random images are not varied. Choose from: none.")
    for each in DECLARED:
        value = each.value(run)
        _check_range(each, value)
        if each.path not in PATHS:  # no record keeps them
            _check_content(each.path, value)
    is_here = run.executor.name == Executor.local  # a node may have more cores than this machine
    if is_here and run.threads is not None and run.threads > (cores := usable_cores()):
        raise UserError(f"threads={run.threads}: should be at most {cores}")


def _check_range(setting: Declared, value: Any) -> None:
    flag, said, bounds = setting.path, setting.said, _range(setting.kind)
    if bounds is None or value is None:
        return
    number = min(value, default=0) if isinstance(value, list) else value
    least = bounds.ge if said.least is None else said.least
    most = bounds.le if said.most is None else said.most
    if said.above is not None and number <= said.above:
        raise UserError(f"{flag}={number:g}: should be above {said.above:g}")
    if number < least:
        raise UserError(f"{flag}={number}: should be at least {least:g}")
    if number > most:
        raise UserError(f"{flag}={number}: should be at most {most}")


def _range(kind: Any) -> Any:
    if get_origin(kind) is Annotated:
        return next((each for each in get_args(kind) if isinstance(each, Meta)), None)
    return next((found for part in get_args(kind) if (found := _range(part))), None)


def _check_content(flag: str, value: Any) -> None:
    """Raises a UserError for what no record could keep."""
    try:
        kept = safe(value, flag)
    except ValueError as error:
        raise UserError(str(error)) from None
    if canonical_json(kept) != canonical_json(value):
        raise UserError(f"{flag}: has more than {MAX_TEXT} characters, or some that can't be shown")
