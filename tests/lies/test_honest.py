"""Sound code that looks like some that lies: it stays ok, without a warning that it does not deserve."""

from typing import Any, NamedTuple

import pytest

from accelbench.isolation.hosts import Hosts
from accelbench.schema.cell import TrainerSettings
from accelbench.schema.vocab import MODULE, Library, Mode, ModelOutput, Pipeline, Precision, Protocol, Status
from accelbench.schema.workload import DataSpec, ModelSpec
from fakes import make_cell
from lies.test_lies import SHORT

# Of how it was measured, and not of what the code does.
ABOUT_NOISE = ("noisy", "blocks", "step times", "outliers", "the speed", "the median step")
DEPENDS = "as long again with the same: the speed is that of the inputs that were fed"  # true of those that exit early


class Sound(NamedTuple):
    """A network of `lies.honest`, or a LightningModule, and what it is that looks wrong."""

    name: str
    looks: str
    loss: str | None = None
    batch: str = "batch"
    optimizer: str | None = None
    more: dict[str, Any] = {}


TWO_STEPS = {"protocol": Protocol.steps, "warmup": 0, "steps": 2}
NETWORKS = [
    Sound("WithState", "the same inputs give different outputs"),
    Sound("DropsOnPurpose", "drops at random in inference"),
    Sound("MonteCarlo", "samples at random in inference"),
    Sound("DropoutLeftOn", "its dropout is in training mode in inference"),
    Sound("FrozenBackbone", "most weights do not change, and are in evaluation mode", loss="square"),
    Sound("TiedWeights", "one tensor has two names", loss="square", batch="ids"),
    Sound("TiedWeights", "one tensor has two names", batch="ids"),
    Sound("FewRowsChange", "few rows of a large tensor change", "square", "ids", "lies.honest.sparse_sgd"),
    Sound("Checkpointed", "computes its forward pass twice", loss="square"),
    Sound("Experts", "some experts get no sample of a batch", loss="square"),
    Sound("Experts", "the work depends on the inputs"),
    Sound("Normalised", "its buffers change without gradients", loss="square"),
    Sound("SkipsLayers", "its steps differ in their work", loss="square"),
    Sound("ZeroHead", "its output is the same for all inputs"),
    Sound("AttendsToBatch", "an output depends on the other samples"),
    Sound("HardAnswers", "different inputs have the same output"),
    Sound("Structured", "returns an object"),
    Sound("TimeFirst", "two dimensions of its output are as long as the batch"),
    Sound("Fp32Head", "some products in fp32 where bf16 was asked for", more={"precision": Precision.bf16}),
    Sound("Honest", "rounding in bf16", more={"precision": Precision.bf16}),
    Sound("Honest", "rounding may swallow steps", "square", more={"precision": Precision.bf16}),
    Sound("Honest", "every input is new", more={"pipeline": Pipeline.fresh}),
    Sound("Honest", "one batch alone", more={"pipeline": Pipeline.device}),
    Sound("Honest", "one sample alone", more={"batch_size": 1}),
    Sound("Honest", "all its inputs are ones", batch="ones"),
    Sound("Honest", "all its inputs are ones, in bf16", batch="ones", more={"precision": Precision.bf16}),
    Sound("DropsOnPurpose", "all its inputs are ones, and it drops at random", batch="ones"),
    Sound("HardAnswers", "one sample alone, always the same", batch="fixed", more={"batch_size": 1}),
    Sound("TiedWeights", "one sequence alone, always the same", batch="fixed_ids", more={"batch_size": 1}),
    Sound("TiedWeights", "all its tokens are the same", batch="same_ids"),
    Sound("Decides", "one sample alone, which has one of two outputs", more={"batch_size": 1}),
    Sound("Decides", "its inputs have one of two outputs"),
    Sound("ExitsEarly", "how much it computes depends on the inputs"),
    Sound("ExitsEarly", "how much it trains depends on the inputs", loss="square"),
]
MODULES = [
    Sound("Gan", "two optimisers, of which one waits every second batch"),
    Sound("AccumulatesByHand", "most steps change no weight"),
    Sound(
        "Lit",
        "accumulates gradients over more steps than are run",
        more={**TWO_STEPS, "trainer": TrainerSettings(accumulate_grad_batches=8)},
    ),
    Sound("AccumulatesByHand", "the same by hand", more=TWO_STEPS),
    Sound("TimeFirstBatch", "a hook makes the first dimension of inputs shorter than the batch"),
    Sound("Pairs", "a hook halves the first dimension of a batch"),
    Sound("WarmsUp", "its learning rate begins at 0"),
    Sound("KeepsAverages", "has weights that nothing trains"),
    Sound("Crops", "its hooks change batches"),
    Sound("Lit", "trains on a stream without a length", more={"data": "lies.honest.StreamData"}),
    Sound("Lit", "accumulates gradients as asked", more={"trainer": TrainerSettings(accumulate_grad_batches=4)}),
    Sound("Lit", "infers", more={"mode": Mode.infer}),
    Sound("Lit", "infers one sample", more={"mode": Mode.infer, "batch_size": 1}),
    Sound("Embeds", "infers one sequence", more={"mode": Mode.infer, "batch_size": 1, "data": "lies.honest.TokenData"}),
    Sound(
        "Embeds",
        "all its tokens are the same",
        more={"mode": Mode.infer, "data": "lies.honest.TokenData", "data_args": {"same": True}},
    ),
]


@pytest.fixture(scope="module")
def hosts():
    with Hosts() as running:
        yield running


def named(sound):
    return f"{sound.name}-{sound.looks}".replace(" ", "_")


def assert_sound(outcome):
    assert outcome.status == Status.ok, (outcome.reason, outcome.error)
    said = [text for text in outcome.measurement.warnings if not text.startswith(ABOUT_NOISE) and DEPENDS not in text]
    assert said == []


@pytest.mark.parametrize("sound", NETWORKS, ids=named)
def test_a_sound_network_is_not_accused(hosts, tmp_path, sound):
    more = dict(sound.more)
    where = "lies.networks" if sound.name == "Honest" else "lies.honest"
    spec = ModelSpec(
        name=sound.name,
        library=Library.custom,
        network=f"{where}.{sound.name}",
        batch=f"lies.networks.{sound.batch}",
        loss=sound.loss and f"lies.networks.{sound.loss}",
        output=ModelOutput.any,
        optimizer=sound.optimizer or "adam",
    )
    data = DataSpec(name="random", pipeline=more.pop("pipeline", Pipeline.host))
    mode = Mode.train if sound.loss else Mode.infer
    settings = {"data": data, "mode": mode, "batch_size": 8, "breakdown_s": 0.0, "window": SHORT, "threads": 1}
    assert_sound(hosts.run(make_cell(model=spec, **{**settings, **more}), tmp_path))


@pytest.mark.parametrize("sound", MODULES, ids=named)
def test_a_sound_module_is_not_accused(hosts, tmp_path, sound):
    more = dict(sound.more)
    spec = ModelSpec(name=sound.name, library=Library.lightning, network=f"lies.honest.{sound.name}")
    data = DataSpec(name=MODULE, target=more.pop("data", "lies.honest.Data"), args=more.pop("data_args", {}))
    settings = {"batch_size": 8, "mode": Mode.train, "breakdown_s": 0.0, "window": SHORT, "threads": 1}
    settings["trainer"] = TrainerSettings()
    assert_sound(hosts.run(make_cell(model=spec, data=data, **{**settings, **more}), tmp_path))


@pytest.mark.parametrize(("num", "said"), [(20, 40), (7, 30), (20, 22), (64, 80)])
def test_a_loader_that_gives_less_than_it_says_is_counted_as_it_gives(hosts, tmp_path, num, said):
    spec = ModelSpec(name="Lit", library=Library.lightning, network="lies.modules.Lit")
    data = DataSpec(name=MODULE, target="lies.modules.Estimated", args={"num": num, "said": said})
    more = {"batch_size": 4, "mode": Mode.train, "breakdown_s": 0.0, "threads": 1, "trainer": TrainerSettings()}
    outcome = hosts.run(make_cell(model=spec, data=data, window=SHORT, **more), tmp_path)
    assert_sound(outcome)
    # Each epoch ends with a batch of num % 4 samples, if that is not 0.
    mean = num / -(-num // 4)
    found = outcome.measurement.samples_per_step
    assert found == pytest.approx(mean, rel=0.05)
