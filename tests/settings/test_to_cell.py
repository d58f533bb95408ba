import dataclasses

import pytest

from accelbench.errors import UserError
from accelbench.schema.cell import Cell, KerasSettings
from accelbench.schema.vocab import Device, Engine, KerasBackend, Mode, ModelOutput, Precision, Protocol, Scaling
from accelbench.schema.workload import DataSpec
from accelbench.settings.config import Retry
from accelbench.settings.executors import ExecutorConfig
from accelbench.settings.to_cell import cell_and_options, repeated
from fakes import make_cell
from settings.composed import merged


def test_a_configuration_becomes_a_frozen_cell_and_the_sweeps_options():
    cell, options = cell_and_options(
        merged("out=there", "retry=failed", "profile=full", "threads=2", "seed=4", "repeat=1")
    )
    assert cell == Cell(
        suite="nets",
        engine=Engine.lightning,
        device=Device.cpu,
        model=cell.model,
        data=DataSpec(name="mnist"),
        mode=Mode.train,
        precision=Precision.bf16,
        batch_size=32,
        protocol=Protocol.window,
        epochs=2,
        threads=2,
        seed=4,
        repeat=1,
    )
    assert dataclasses.asdict(cell.model) == {
        "name": "mlp",
        "library": "accelbench",
        "network": None,
        "factory": False,
        "weights": "none",
        "args": {"width": 8},
        "task": None,
        "batch": None,
        "batch_args": {},
        "inputs": (),
        "loss": None,
        "samples": None,
        "tokens": None,
        "optimizer": "adam",
        "learning_rate": 1e-3,
        "output": "logits",
        "input_shape": (28, 28),
        "constant": False,
        "num_classes": 10,
    }
    assert dataclasses.asdict(options) == {
        "suite": "nets",
        "title": "Nets",
        "study": "001",
        "profile": "full",
        "tracking": "none",
        "out": "there",
        "retry": Retry.failed,
        "data_root": None,
        "repeats": 1,
        "quiet_s": 30.0,
        "verbose": False,
        "executor": dataclasses.asdict(ExecutorConfig()),
    }
    with pytest.raises(dataclasses.FrozenInstanceError):
        cell.batch_size = 1


def test_the_batch_grows_with_the_devices_only_where_asked():
    strong, _ = cell_and_options(merged("devices=4"))
    weak, _ = cell_and_options(merged("devices=4", "scaling=weak"))
    assert (strong.batch_size, strong.batch_size_per_device) == (32, 8)
    assert (weak.batch_size, weak.batch_size_per_device) == (128, 32)
    one, _ = cell_and_options(merged("scaling=weak"))
    assert (one.batch_size, one.scaling) == (32, Scaling.strong)  # nothing to scale: the same cell


def test_keras_settings_are_keras_alone():
    assert cell_and_options(merged())[0].keras is None
    assert cell_and_options(merged("engine.name=keras"))[0].keras == KerasSettings()
    keras = cell_and_options(merged("engine.name=keras", "engine.backend=jax", "engine.steps_per_execution=4"))[0].keras
    # JAX's steps are compiled unless it is said otherwise: Keras would run them operator by operator.
    assert keras == KerasSettings(backend=KerasBackend.jax, steps_per_execution=4, jit_compile=True)
    plain = cell_and_options(merged("engine.name=keras", "engine.backend=jax", "engine.jit_compile=false"))[0].keras
    assert not plain.jit_compile
    with pytest.raises(UserError, match="^engine.jit_compile=true: goes with engine=keras, and not with engine=light"):
        cell_and_options(merged("engine.jit_compile=true"))


def test_processes_of_xla_devices_are_lightnings_and_of_several_devices():
    several = ("device.name=xla_cpu", "devices=2")
    assert cell_and_options(merged(*several, "engine.xla_processes=true"))[0].xla_processes
    assert not cell_and_options(merged(*several))[0].xla_processes
    for idle in (("device.name=xla_cpu",), ("device.name=cpu", "devices=2")):
        assert not cell_and_options(merged(*idle, "engine.xla_processes=true"))[0].xla_processes
    with pytest.raises(UserError, match="^engine.xla_processes=true: goes with engine=lightning, and not with engine"):
        cell_and_options(merged("engine.name=keras", "engine.xla_processes=true"))


def test_a_tpus_name_is_for_tensorflow_on_a_tpu_alone():
    named = ("engine.name=keras", "engine.tpu=mine")
    assert cell_and_options(merged(*named, "device.name=tpu"))[0].keras.tpu == "mine"
    for idle in ("device.name=cpu", "device.name=gpu"):
        assert cell_and_options(merged(*named, idle))[0].id == cell_and_options(merged("engine.name=keras", idle))[0].id
        assert cell_and_options(merged(*named, idle, "engine.backend=jax"))[0].keras.tpu == KerasSettings.tpu
    with pytest.raises(UserError, match="^engine.tpu=mine: JAX drives .* use engine.tpu=local"):
        cell_and_options(merged(*named, "device.name=tpu", "engine.backend=jax"))
    assert cell_and_options(merged("engine.name=keras", "engine.tpu=local", "device.name=tpu", "engine.backend=jax"))


def test_a_cell_is_repeated_as_other_processes_of_the_same_settings():
    again = repeated([make_cell(), make_cell(batch_size=8, repeat=4)], 2)
    assert [(cell.batch_size, cell.repeat) for cell in again] == [(32, 0), (32, 1), (8, 4), (8, 5)]
    assert repeated([make_cell()], 1) == [make_cell()]


CUSTOM = ("model.name=custom", "model.library=custom")


def test_a_factory_is_a_setting_of_the_users_own_network():
    cell, _ = cell_and_options(merged(*CUSTOM, "model.target=my.nets.make", "model.factory=true"))
    assert (cell.model.definition, cell.model.name, cell.model.factory) == ("my.nets.make", "make", True)
    assert not cell_and_options(merged(*CUSTOM, "model.target=my.nets.Net"))[0].model.factory
    with pytest.raises(
        UserError, match="^model.factory=true: goes with model=custom or model=lightning, and not with model=mlp$"
    ):
        cell_and_options(merged("model.factory=true"))


def test_a_target_in_the_standard_library_is_refused_at_once():
    for more in ((), ("model.factory=true",)):
        with pytest.raises(UserError, match="^model.target=os.system: os is a module of Python's standard library"):
            cell_and_options(merged(*CUSTOM, "model.target=os.system", *more))


def test_only_ones_own_network_may_give_any_output():
    own, _ = cell_and_options(merged("model.library=custom", "model.target=my_package.nets.MyNet", "model.output=any"))
    assert own.model.output == ModelOutput.any
    for library in ("accelbench", "timm", "torchvision"):
        with pytest.raises(UserError, match="^model.output=any: goes with model=custom, and not with model=mlp$"):
            cell_and_options(merged(f"model.library={library}", "model.output=any"))


def test_an_unknown_optimiser_is_refused():
    with pytest.raises(
        UserError, match="^model.optimizer=lion: unknown model.optimizer. Choose from: adam, adamw, sgd"
    ):
        cell_and_options(merged("model.optimizer=lion"))


LIT = ("model.name=lightning", "model.library=lightning", "model.target=my.nets.Lit", "data.name=module")


def test_a_lightning_module_has_a_data_module_or_its_own_loaders_and_settings_of_the_trainer():
    cell, _ = cell_and_options(merged(*LIT, "data.target=my.data.Data", "trainer.accumulate_grad_batches=4"))
    assert (cell.model.definition, cell.data.target) == ("my.nets.Lit", "my.data.Data")
    assert cell.trainer.accumulate_grad_batches == 4
    alone, _ = cell_and_options(merged(*LIT, "mode=infer", "trainer.gradient_clip_val=1", "model.samples=my.data.num"))
    assert alone.data.target is None
    assert alone.trainer.non_defaults == []  # inference has no gradients


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ([*LIT, "model.optimizer=sgd"], "model.optimizer=sgd: goes not with model=lightning, whose module decides it"),
        ([*LIT, "model.learning_rate=0.1"], "model.learning_rate=0.1: goes not with model=lightning"),
        ([*LIT, "model.loss=my.loss"], "model.loss=my.loss: goes with model=custom"),
        ([*LIT, "data.args={n: 1}"], "data.args.n: goes with data.target"),
        ([*LIT, "data.pipeline=jpeg"], "data.pipeline=jpeg: goes with other data"),
        (["trainer.accumulate_grad_batches=4"], "trainer.accumulate_grad_batches=4: goes with model=lightning"),
    ],
)
def test_settings_that_a_lightning_module_decides_itself_are_refused(settings, told):
    with pytest.raises(UserError, match=f"^{told}"):
        cell_and_options(merged(*settings))
