"""Code that lies, by mistake or on purpose: one line for each, with what it does and what has to be said of it."""

import re
from typing import Any, NamedTuple

import pytest

from accelbench.isolation.hosts import Hosts
from accelbench.schema.cell import TrainerSettings, Window
from accelbench.schema.vocab import MODULE, Library, Mode, ModelOutput, Pipeline, Precision, Status
from accelbench.schema.workload import DataSpec, ModelSpec
from fakes import make_cell

SHORT = Window(warmup_steps=2, warmup_s=0.01, measure_s=0.08, block_s=0.01, latency_s=0.03, latency_steps=20)
LONG = Window(warmup_steps=2, warmup_s=0.01, measure_s=0.8, block_s=0.05, latency_s=0.2, latency_steps=50)
STALE = "the output does not depend on the inputs|in a timed step the output was not that of the step's own"
WRONG = "the output differs by .* from that of a newly built network"
PLACE = "depends on its place in the batch, and .* not computed from their own inputs"
SAME = "the output is the same for all inputs"
KEPT = "results of earlier inputs are kept"
NOTHING = "nothing was trained"
NO_GRADIENTS = "weights that did not change while it trained: 12 of 14 tensors"
ACCUMULATED = "trainer.accumulate_grad_batches=8|its optimisers made .* steps in"
CLAIMS = "its process claims .* of measuring, and the host's clock saw"


class Lie(NamedTuple):
    """A network of `lies.networks`, or a LightningModule of `lies.modules`, and what has to be said of it.

    Attributes:
        name: of the class.
        does: what it does.
        said: a pattern: why the cell is invalid; or of a warning or note, where `status` is another one.
        loss, optimizer, samples: functions of `lies.networks`; with a loss it trains.
        more: settings of the cell.
    """

    name: str
    does: str
    said: str
    status: Status = Status.invalid
    loss: str | None = None
    optimizer: str | None = None
    samples: str | None = None
    more: dict[str, Any] = {}


def training(name, does, said, status=Status.invalid, loss="square", optimizer=None, **more):
    return Lie(name, does, said, status, loss, optimizer, more=more)


BF16 = {"precision": Precision.bf16}
LIES = [
    # outputs
    Lie("FirstRows", "computes rows 0 and 1, and zeros for the others", PLACE),
    Lie("FirstRowRepeated", "computes row 0, and repeats it", f"{PLACE}|{SAME}"),
    Lie("HalfOfTheRows", "computes every second row", PLACE),
    Lie("LastRowMissing", "computes all rows but the last four", PLACE),
    Lie("FirstRows", "the same in bf16", PLACE, more=BF16),
    Lie("SecondTensorKept", "keeps its second tensor for ever", WRONG),
    Lie("EncoderKept", "keeps an encoder's memory of the first batch", WRONG),
    Lie("EncoderKept", "the same in bf16", WRONG, more=BF16),
    Lie("FirstOutputKept", "keeps its first output", f"{STALE}|{WRONG}"),
    Lie("KeptInGlobal", "keeps its first output for all networks of the process", f"{STALE}|{WRONG}|{SAME}|{PLACE}"),
    Lie("KeptByContent", "keeps outputs by the contents of inputs", KEPT),
    Lie("KeptByContent", "the same on fresh inputs has nothing to gain", "", Status.ok, more={"pipeline": Pipeline.fresh}),
    Lie("KeptByContent", "the same where each batch is the same", KEPT, more={"batch": "fixed"}),
    Lie("FirstOutputKept", "the same where each batch is the same", f"{STALE}|{WRONG}", more={"batch": "fixed"}),
    Lie("Constant", "the same where each batch is the same", "the output is the same for all", more={"batch": "fixed"}),
    Lie("KeptByAddress", "keeps outputs by the addresses of inputs", f"{STALE}|{WRONG}"),
    Lie("KeptByShape", "keeps outputs by the shapes of inputs", f"{STALE}|{WRONG}"),
    Lie("EveryOtherCall", "computes at every other call", f"{STALE}|{WRONG}"),
    Lie("AfterManyCalls", "stops computing after 20 calls", f"{STALE}|{WRONG}"),
    Lie("FewerLayersLater", "leaves layers out after 5 calls", WRONG),
    Lie("LazyMapping", "computes when its output is read", "computed only when it is read", Status.failed),
    Lie("LazySubclass", "returns tensors that compute when they are read", "computed only when it is read", Status.failed),
    Lie("LazyObject", "returns an object whose property computes", "holds no tensor that accelbench finds"),
    Lie("LazyGenerator", "returns a generator", "holds no tensor that accelbench finds"),
    Lie("FewerLayersInInferenceMode", "leaves layers out in inference mode", WRONG),
    Lie("Constant", "returns a constant", "the output is the same for all inputs"),
    Lie("ConstantOfZeros", "multiplies its output by 0", "the output is the same for all inputs"),
    Lie("Constant", "the same, as model.constant=true says", "", Status.ok, more={"constant": True}),
    Lie("Noise", "returns random numbers", "the output does not depend on the inputs: it is random"),
    Lie("NotFinite", "returns infinite numbers", "the output is not finite"),
    Lie("DropsInInference", "stays in training mode", "in training mode, although it infers: the network", Status.ok),
    # precision
    Lie("MostInBf16", "one small layer in fp32, all others in bf16", "asked for precision fp32, but"),
    Lie("AutocastInside", "computes in bf16 by an autocast of its own", "asked for precision fp32, but bf16_mixed ran"),
    Lie("Fp32Inside", "computes in fp32 where bf16 was asked for", "asked for precision bf16, but", more=BF16),
    Lie("HalfInBf16", "two thirds in fp32", "of the operations of matrix products ran in bfloat16", Status.ok),
    # settings
    Lie("OneCore", "binds its process to one core", "bound the process to 1 of . cores", more={"threads": 2}),
    Lie("OneCoreLater", "binds all threads to one core", "bound the process to 1 of . cores", more={"threads": 2}),
    Lie("OneThread", "sets the number of threads", "threads", more={"threads": 2}),
    # times and counts
    Lie("FasterBlocks", "replaces what times a block", CLAIMS, more={"window": LONG}),
    Lie("SlowClock", "replaces the clock", CLAIMS, more={"window": LONG}),
    Lie("EditedTimes", "edits the times", CLAIMS, more={"window": LONG}),
    Lie("BlocksOfNothing", "claims blocks that never ran", CLAIMS, more={"window": LONG}),
    Lie("MoreSamples", "counts samples that there are not", "claims more than 8 samples a step"),
    Lie("Silent", "keeps the host from hearing when something is timed", "did not say when it timed something"),
    # training
    training("Honest", "the loss is constant", f"{NOTHING}: the gradients of all weights are 0", loss="nothing_to_learn", optimizer="adamw"),
    training("Honest", "the loss is constant, without decay", NOTHING, loss="nothing_to_learn"),
    training("Honest", "the optimiser's step does nothing", NOTHING, optimizer="no_step"),
    training("Honest", "the learning rate is 0", f"{NOTHING}.*the learning rate is 0", optimizer="zero_rate"),
    training("Honest", "the optimiser has another network's weights", NOTHING, optimizer="foreign"),
    training("Honest", "the optimiser has one of 14 tensors", "did not change .* 13 of 14", Status.ok, optimizer="one_of_all"),
    training("Honest", "the optimiser stops after 3 steps", NOTHING, optimizer="stops"),
    training("Honest", "weights blow up behind a finite loss", "weights are not finite", loss="finite_anyway", optimizer="huge_rate"),
    training("Honest", "the loss has a backward that passes", NOTHING, loss="no_backward"),
    training("DetachedInTheMiddle", "detaches in the middle", NO_GRADIENTS, Status.ok),
    training("BodyWithoutGradients", "its body runs under no_grad", NO_GRADIENTS, Status.ok),
    training("FreezesItself", "freezes its body after 3 batches", NO_GRADIENTS, Status.ok),
    training("EvaluatesItself", "sets itself to evaluation mode", "in evaluation mode, although it trains: the network", Status.ok),
    training("EverySecondForwardKept", "caches every second forward pass", "some batches get the output of an earlier one"),
    training("FeaturesKeptByContent", "keeps the features of batches that it has seen", KEPT),
]  # fmt: skip


def module(name, does, said, status=Status.invalid, mode=Mode.train, **more):
    return Lie(name, does, said, status, more={"mode": mode, **more})


INFER = {"mode": Mode.infer}
MODULES = [
    module("OnlyClosure", "its optimizer_step runs the closure alone", NOTHING),
    module("NeverBackward", "optimises by hand, and never calls backward or step", NOTHING),
    module("NeverStep", "optimises by hand, and never calls step", NOTHING),
    module("StepAlone", "optimises by hand, and never calls backward", NOTHING),
    module("BackwardPasses", "its backward does nothing", NOTHING),
    module("LearnsNothing", "its loss has gradients of 0, and AdamW decays", f"{NOTHING}: the gradients"),
    module("ZeroRate", "its learning rate is 0", NOTHING),
    module("Accumulates", "sets trainer.accumulate_grad_batches", "its code set trainer.accumulate_grad_batches=8"),
    module("AccumulatesLater", "sets it in its fifth step", "its code set trainer.accumulate_grad_batches=8"),
    module("AccumulatesMeanwhile", "sets it from its fifth step on, and back in the end", ACCUMULATED, window=LONG),
    module("Clips", "sets trainer.gradient_clip_val", "its code set trainer.gradient_clip_val=0.1"),
    module("CropsInTransfer", "crops batches on their way to the device", "left 2 of the 8 rows"),
    module("CropsBeforeTransfer", "crops them before", "left 2 of the 8 rows"),
    module("CropsAfterTransfer", "crops them afterwards", "left 2 of the 8 rows"),
    module("FreezesLater", "freezes its body in a hook", NO_GRADIENTS, Status.ok),
    module("Detaches", "detaches in the middle", NO_GRADIENTS, Status.ok),
    module("Evaluates", "sets itself to evaluation mode", "in evaluation mode, although it trains", Status.ok),
    module("KeptWithOtherNames", "predict_step(self, b, i) keeps its output", f"{STALE}|{WRONG}", **INFER),
    module("ZerosInPrediction", "predict_step(self, batch) computes two rows", PLACE, **INFER),
    module("KeptByContent", "keeps predictions by the contents of batches", KEPT, **INFER),
    module("KeepsTokens", "keeps predictions by the tokens of batches", KEPT, data="honest.TokenData", **INFER),
    module("TrainsInPrediction", "a hook sets it to training mode", "in training mode, although it infers", Status.ok, **INFER),
]  # fmt: skip


@pytest.fixture(scope="module")
def hosts():
    with Hosts() as running:
        yield running


def named(lie):
    return f"{lie.name}-{lie.does}".replace(" ", "_")


def cell_of(lie):
    paths = {name: f"lies.networks.{path}" for name in ("loss", "optimizer", "samples") if (path := getattr(lie, name))}
    more = dict(lie.more)
    spec = ModelSpec(
        name=lie.name,
        library=Library.custom,
        network=f"lies.networks.{lie.name}",
        batch=f"lies.networks.{more.pop('batch', 'batch')}",
        output=ModelOutput.any,
        constant=more.pop("constant", False),
        **paths,
    )
    data = DataSpec(name="random", pipeline=more.pop("pipeline", Pipeline.host))
    mode = Mode.train if lie.loss else Mode.infer
    settings = {"data": data, "mode": mode, "batch_size": 8, "breakdown_s": 0.0, "window": SHORT, "threads": 1}
    return make_cell(model=spec, **{**settings, **more})


def module_cell(lie):
    spec = ModelSpec(name=lie.name, library=Library.lightning, network=f"lies.modules.{lie.name}")
    more = dict(lie.more)
    data = DataSpec(name=MODULE, target=f"lies.{more.pop('data', 'modules.Data')}", args=more.pop("data_args", {}))
    settings = {"batch_size": 8, "breakdown_s": 0.0, "window": SHORT, "threads": 1, "trainer": TrainerSettings()}
    return make_cell(model=spec, data=data, **{**settings, **more})


def assert_said(outcome, lie):
    found = outcome.measurement
    said = [outcome.reason or ""] + ([] if found is None else [*found.warnings, *found.notes])
    assert outcome.status == lie.status, (said, outcome.error)
    assert re.search(lie.said, said[0] if lie.status != Status.ok else "\n".join(said)), said
    if lie.status == Status.ok and not lie.said:
        assert found.warnings == []


@pytest.mark.parametrize("lie", LIES, ids=named)
def test_a_network_that_lies_is_found_out(hosts, tmp_path, lie):
    assert_said(hosts.run(cell_of(lie), tmp_path), lie)


@pytest.mark.parametrize("lie", MODULES, ids=named)
def test_a_module_that_lies_is_found_out(hosts, tmp_path, lie):
    assert_said(hosts.run(module_cell(lie), tmp_path), lie)


def test_there_are_enough():
    assert len(LIES) + len(MODULES) >= 60
