"""Code that lies, by mistake or on purpose: one line for each, with what it does and what has to be said of it.

And sound code that looks like some that lies: it stays ok, without a warning that it does not deserve.
"""

import re
from statistics import fmean
from typing import Any, NamedTuple

import pytest

from accelbench.judging.row import summarise
from accelbench.judging.warnings import MAX_OTHERS_PERCENT
from accelbench.measuring.output_check import NOT_IN_TIME
from accelbench.schema.cell import TrainerSettings, Window
from accelbench.schema.vocab import (
    MODULE,
    Library,
    Mode,
    ModelOutput,
    Pipeline,
    Precision,
    Promise,
    Protocol,
    Status,
    Stop,
)
from accelbench.schema.workload import DataSpec, ModelSpec
from fakes import make_cell, make_record
from marks import slow

SHORT = Window(warmup_steps=2, warmup_s=0.01, measure_s=0.08, block_s=0.01, latency_s=0.03, latency_steps=20)
# For lies about times, which the host's clock must see surely; and for those that make times four times as long.
LONG = Window(warmup_steps=2, warmup_s=0.01, measure_s=0.8, block_s=0.05, latency_s=0.2, latency_steps=50)
SLOWED = Window(warmup_steps=2, warmup_s=0.01, measure_s=0.25, block_s=0.05, latency_s=0.1, latency_steps=20)
STALE = "the output does not depend on the inputs|in a timed step the output was not that of the step's own"
WRONG = "the output differs by .* from that of a newly built network"
PLACE = "depends on its place in the batch, and .* not computed from their own inputs"
SAME = "the output is the same for all inputs"
KEPT = "results of earlier inputs are kept"
NOTHING = "nothing was trained"
NO_GRADIENTS = "weights that did not change while it trained: 12 of 14 tensors"
ACCUMULATED = "trainer.accumulate_grad_batches=8|its optimisers made .* steps in"
CLAIMS = "its process claims .* of measuring, and the host's clock saw"


class Case(NamedTuple):
    """A network of `lies.networks`, or a LightningModule of `lies.modules`, and what has to be said of it."""

    name: str  # of the class
    does: str
    said: str = ""  # a pattern: why the cell is invalid; or of a warning or note, where `status` is another one
    status: Status = Status.invalid
    more: dict[str, Any] = {}  # settings of the cell, its model and its data; with a loss it trains


def lie(name, does, said, status=Status.invalid, **more):
    return Case(name, does, said, status, more)


def sound(name, looks, **more):
    return Case(name, looks, more=more)


def training(name, does, said, status=Status.invalid, **more):
    return Case(name, does, said, status, {"loss": "square", **more})


BF16 = {"precision": Precision.bf16}
LIES = [
    # outputs
    lie("FirstRows", "computes rows 0 and 1, and zeros for the others", PLACE),
    slow(lie("LastRowMissing", "computes all rows but the last four", PLACE)),
    slow(lie("FirstRows", "the same in bf16", PLACE, **BF16)),
    lie("SecondTensorKept", "keeps its second tensor for ever", WRONG),
    slow(lie("EncoderKept", "keeps an encoder's memory of the first batch", WRONG)),
    slow(lie("EncoderKept", "the same in bf16", WRONG, **BF16)),
    lie("FirstOutputKept", "keeps its first output", f"{STALE}|{WRONG}"),
    slow(lie("KeptInGlobal", "keeps its first output for all networks of the process", f"{STALE}|{WRONG}|{SAME}|{PLACE}")),
    lie("KeptByContent", "keeps outputs by the contents of inputs", KEPT),
    slow(lie("KeptByContent", "the same on fresh inputs has nothing to gain", "", Status.ok, pipeline=Pipeline.fresh)),
    slow(lie("KeptByContent", "the same where each batch is the same", KEPT, batch="fixed")),
    slow(lie("FirstOutputKept", "the same where each batch is the same", f"{STALE}|{WRONG}", batch="fixed")),
    slow(lie("Constant", "the same where each batch is the same", "the output is the same for all", batch="fixed")),
    slow(lie("KeptByAddress", "keeps outputs by the addresses of inputs", f"{STALE}|{WRONG}")),
    slow(lie("EveryOtherCall", "computes at every other call", f"{STALE}|{WRONG}")),
    slow(lie("AfterManyCalls", "stops computing after 20 calls", f"{STALE}|{WRONG}")),
    slow(lie("FewerLayersLater", "leaves layers out after 5 calls", WRONG)),
    lie("LazyMapping", "computes when its output is read", "computed only when it is read", Status.failed),
    slow(lie("LazySubclass", "returns tensors that compute when they are read", "computed only when it is read", Status.failed)),
    lie("LazyObject", "returns an object whose property computes", "holds no tensor that accelbench finds"),
    slow(lie("FewerLayersInInferenceMode", "leaves layers out in inference mode", WRONG)),
    lie("Constant", "returns a constant", "the output is the same for all inputs"),
    lie("Constant", "the same, as model.constant=true says", "", Status.ok, constant=True),
    lie("Noise", "returns random numbers", "the output does not depend on the inputs: it is random"),
    lie("NotFinite", "returns infinite numbers", "the output is not finite"),
    lie("DropsInInference", "stays in training mode", "in training mode, although it infers: the network", Status.ok),
    # precision
    slow(lie("MostInBf16", "one small layer in fp32, all others in bf16", "asked for precision fp32, but")),
    lie("AutocastInside", "computes in bf16 by an autocast of its own", "asked for precision fp32, but bf16_mixed ran"),
    slow(lie("Fp32Inside", "computes in fp32 where bf16 was asked for", "asked for precision bf16, but", **BF16)),
    lie("HalfInBf16", "two thirds in fp32", "of the operations of matrix products ran in bfloat16", Status.ok),
    # settings
    lie("OneCore", "binds its process to one core", "bound the process to 1 of . cores", threads=2),
    slow(lie("OneCoreLater", "binds all threads to one core", "bound the process to 1 of . cores", threads=2)),
    lie("OneThread", "sets the number of threads", "threads", threads=2),
    # times and counts
    slow(lie("FasterBlocks", "replaces what times a block", CLAIMS, window=SLOWED)),
    slow(lie("SlowClock", "replaces the clock", CLAIMS, window=SLOWED)),
    lie("EditedTimes", "edits the times", CLAIMS, window=LONG),
    slow(lie("BlocksOfNothing", "claims blocks that never ran", CLAIMS, window=LONG)),
    lie("MoreSamples", "counts samples that there are not", "claims more than 8 samples a step"),
    lie("Silent", "keeps the host from hearing when something is timed", "did not say when it timed something"),
    # training
    training("Honest", "the loss is constant", f"{NOTHING}: the gradients of all weights are 0", loss="nothing_to_learn", optimizer="adamw"),
    slow(training("Honest", "the loss is constant, without decay", NOTHING, loss="nothing_to_learn")),
    slow(training("Honest", "the optimiser's step does nothing", NOTHING, optimizer="no_step")),
    slow(training("Honest", "the learning rate is 0", f"{NOTHING}.*the learning rate is 0", optimizer="zero_rate")),
    slow(training("Honest", "the optimiser has another network's weights", NOTHING, optimizer="foreign")),
    training("Honest", "the optimiser has one of 14 tensors", "did not change .* 13 of 14", Status.ok, optimizer="one_of_all"),
    slow(training("Honest", "the optimiser stops after 3 steps", NOTHING, optimizer="stops")),
    training("Honest", "weights blow up behind a finite loss", "weights are not finite", loss="finite_anyway", optimizer="huge_rate"),
    slow(training("Honest", "the loss has a backward that passes", NOTHING, loss="no_backward")),
    training("DetachedInTheMiddle", "detaches in the middle", NO_GRADIENTS, Status.ok),
    slow(training("BodyWithoutGradients", "its body runs under no_grad", NO_GRADIENTS, Status.ok)),
    slow(training("FreezesItself", "freezes its body after 3 batches", NO_GRADIENTS, Status.ok)),
    training("EvaluatesItself", "sets itself to evaluation mode", "in evaluation mode, although it trains: the network", Status.ok),
    training("EverySecondForwardKept", "caches every second forward pass", "some batches get the output of an earlier one"),
    slow(training("FeaturesKeptByContent", "keeps the features of batches that it has seen", KEPT)),
]  # fmt: skip
INFER = {"mode": Mode.infer}
MODULES = [
    lie("OnlyClosure", "its optimizer_step runs the closure alone", NOTHING),
    slow(lie("NeverBackward", "optimises by hand, and never calls backward or step", NOTHING)),
    slow(lie("BackwardPasses", "its backward does nothing", NOTHING)),
    slow(lie("LearnsNothing", "its loss has gradients of 0, and AdamW decays", f"{NOTHING}: the gradients")),
    slow(lie("ZeroRate", "its learning rate is 0", NOTHING)),
    lie("Accumulates", "sets trainer.accumulate_grad_batches", "its code set trainer.accumulate_grad_batches=8"),
    slow(lie("AccumulatesLater", "sets it in its fifth step", "its code set trainer.accumulate_grad_batches=8")),
    slow(lie("AccumulatesMeanwhile", "sets it from its fifth step on, and back in the end", ACCUMULATED, window=LONG)),
    slow(lie("Clips", "sets trainer.gradient_clip_val", "its code set trainer.gradient_clip_val=0.1")),
    lie("CropsInTransfer", "crops batches on their way to the device", "left 2 of the 8 rows"),
    slow(lie("CropsInPlugin", "crops batches in the precision plugin", "left 2 of the 8 rows")),
    slow(lie("FreezesLater", "freezes its body in a hook", NO_GRADIENTS, Status.ok)),
    lie("KeptWithOtherNames", "predict_step(self, b, i) keeps its output", f"{STALE}|{WRONG}", **INFER),
    slow(lie("ZerosInPrediction", "predict_step(self, batch) computes two rows", PLACE, **INFER)),
    lie("KeptByContent", "keeps predictions by the contents of batches", KEPT, **INFER),
    slow(lie("KeepsTokens", "keeps predictions by the tokens of batches", KEPT, data_args={"tokens": True}, **INFER)),
    lie("TrainsInPrediction", "a hook sets it to training mode", "in training mode, although it infers", Status.ok, **INFER),
]  # fmt: skip
TOKENS = {"data_args": {"tokens": True}}
TWO_STEPS = {"protocol": Protocol.steps, "warmup": 0, "steps": 2}
SOUND_NETWORKS = [
    sound("WithState", "the same inputs give different outputs"),
    slow(sound("DropsOnPurpose", "drops at random in inference")),
    slow(sound("DropoutLeftOn", "its dropout is in training mode in inference")),
    sound("FrozenBackbone", "most weights do not change, and are in evaluation mode", loss="square"),
    sound("TiedWeights", "one tensor has two names", loss="square", batch="ids"),
    slow(sound("TiedWeights", "one tensor has two names", batch="ids")),
    slow(sound("FewRowsChange", "few rows of a large tensor change", loss="square", batch="ids", optimizer="sparse_sgd")),
    slow(sound("Checkpointed", "computes its forward pass twice", loss="square")),
    sound("Experts", "some experts get no sample of a batch", loss="square"),
    slow(sound("Experts", "the work depends on the inputs")),
    slow(sound("SkipsLayers", "its steps differ in their work", loss="square")),
    sound("ZeroHead", "its output is the same for all inputs"),
    sound("AttendsToBatch", "an output depends on the other samples"),
    slow(sound("HardAnswers", "different inputs have the same output")),
    slow(sound("TimeFirst", "two dimensions of its output are as long as the batch")),
    sound("Fp32Head", "some products in fp32 where bf16 was asked for", **BF16),
    slow(sound("Honest", "rounding in bf16", **BF16)),
    sound("Honest", "rounding may swallow steps", loss="square", **BF16),
    slow(sound("Honest", "every input is new", pipeline=Pipeline.fresh)),
    slow(sound("Honest", "one batch alone", pipeline=Pipeline.device)),
    sound("Honest", "one sample alone", batch_size=1),
    sound("Honest", "all its inputs are ones", batch="ones"),
    slow(sound("Honest", "all its inputs are ones, in bf16", batch="ones", **BF16)),
    slow(sound("DropsOnPurpose", "all its inputs are ones, and it drops at random", batch="ones")),
    slow(sound("HardAnswers", "one sample alone, always the same", batch="fixed", batch_size=1)),
    slow(sound("TiedWeights", "one sequence alone, always the same", batch="fixed_ids", batch_size=1)),
    slow(sound("TiedWeights", "all its tokens are the same", batch="same_ids")),
    slow(sound("Decides", "one sample alone, which has one of two outputs", batch_size=1)),
    slow(sound("Decides", "its inputs have one of two outputs")),
    sound("ExitsEarly", "how much it computes depends on the inputs"),
    slow(sound("ExitsEarly", "how much it trains depends on the inputs", loss="square")),
]  # fmt: skip
SOUND_MODULES = [
    sound("Gan", "two optimisers, of which one waits every second batch"),
    slow(sound("AccumulatesByHand", "most steps change no weight")),
    sound("Lit", "accumulates more steps than are run", **TWO_STEPS, trainer=TrainerSettings(accumulate_grad_batches=8)),
    slow(sound("AccumulatesByHand", "the same by hand", **TWO_STEPS)),
    slow(sound("Pairs", "a hook halves the first dimension of a batch")),
    slow(sound("WarmsUp", "its learning rate begins at 0")),
    sound("Crops", "its hooks change batches"),
    sound("Lit", "trains on a stream without a length", data="modules.Stream"),
    sound("Lit", "accumulates gradients as asked", trainer=TrainerSettings(accumulate_grad_batches=4)),
    sound("Lit", "infers", **INFER),
    slow(sound("Lit", "infers one sample", batch_size=1, **INFER)),
    slow(sound("Embeds", "infers one sequence", batch_size=1, **TOKENS, **INFER)),
    slow(sound("Embeds", "all its tokens are the same", data_args={"tokens": True, "same": True}, **INFER)),
]  # fmt: skip


def named(case):
    return f"{case.name}-{case.does}".replace(" ", "_")


def cell_of(case, where="networks"):
    more = {**case.more}
    paths = {name: f"lies.networks.{more.pop(name)}" for name in ("loss", "samples") if name in more}
    spec = ModelSpec(
        name=case.name,
        library=Library.custom,
        network=f"lies.{where}.{case.name}",
        batch=f"lies.networks.{more.pop('batch', 'batch')}",
        output=ModelOutput.any,
        constant=more.pop("constant", False),
        optimizer=f"lies.networks.{more.pop('optimizer')}" if "optimizer" in more else "adam",
        **paths,
    )
    more["data"] = DataSpec(name="random", pipeline=more.pop("pipeline", Pipeline.host))
    return a_cell(spec, mode=Mode.train if "loss" in paths else Mode.infer, **more)


def module_cell(case, where="modules"):
    more = {**case.more}
    spec = ModelSpec(name=case.name, library=Library.lightning, network=f"lies.{where}.{case.name}")
    target = f"lies.{more.pop('data', 'modules.Data')}"
    more["data"] = DataSpec(name=MODULE, target=target, args=more.pop("data_args", {}))
    return a_cell(spec, **{"mode": Mode.train, "trainer": TrainerSettings(), **more})


def a_cell(spec, **more):
    settings = {"batch_size": 8, "breakdown_s": 0.0, "window": SHORT, "threads": 1}
    return make_cell(model=spec, **{**settings, **more})


def assert_said(outcome, case):
    found = outcome.measurement
    said = [outcome.reason or ""] + ([] if found is None else [*found.warnings, *found.notes])
    assert outcome.status == case.status, (said, outcome.error)
    assert re.search(case.said, said[0] if case.status != Status.ok else "\n".join(said)), said
    if case.status == Status.ok and not case.said:
        assert found.warnings == []


def others_percent(outcome):
    """How busy other programs kept the cores while its process ran, 100 for one core."""
    return fmean(value or 0.0 for value in outcome.system.values["other_cpu_utilization_percent"])


def assert_found_out(run, case):
    """Times alone show that results are kept: a cell whose cores others used meanwhile is tried again."""
    outcome, num_left = run(), 5 * (case.said == KEPT)
    while outcome.status != case.status and num_left and others_percent(outcome) > MAX_OTHERS_PERCENT:
        outcome, num_left = run(), num_left - 1
    assert_said(outcome, case)


@pytest.mark.parametrize("case", LIES, ids=named)
def test_a_network_that_lies_is_found_out(hosts, tmp_path, case):
    assert_found_out(lambda: hosts.run(cell_of(case), tmp_path), case)


@pytest.mark.parametrize("case", MODULES, ids=named)
def test_a_module_that_lies_is_found_out(hosts, tmp_path, case):
    assert_found_out(lambda: hosts.run(module_cell(case), tmp_path), case)


# Said of how it was measured, and not of what the code does.
ABOUT_NOISE = ("noisy", "blocks", "step times", "outliers", "the speed", "the median step")
DEPENDS = "as long again with the same: the speed is that of the inputs that were fed"  # true of those that exit early


def assert_sound(outcome):
    assert outcome.status == Status.ok, (outcome.reason, outcome.error)
    said = [text for text in outcome.measurement.warnings if not text.startswith(ABOUT_NOISE) and DEPENDS not in text]
    assert said == []


@pytest.mark.parametrize("case", SOUND_NETWORKS, ids=named)
def test_a_sound_network_is_not_accused(hosts, tmp_path, case):
    assert_sound(hosts.run(cell_of(case, "networks" if case.name == "Honest" else "honest"), tmp_path))


@pytest.mark.parametrize("case", SOUND_MODULES, ids=named)
def test_a_sound_module_is_not_accused(hosts, tmp_path, case):
    assert_sound(hosts.run(module_cell(case, "modules" if case.name in ("Lit", "Embeds") else "honest"), tmp_path))


@pytest.mark.parametrize(("num", "said"), [(20, 40), (7, 30), slow(20, 22), slow(64, 80)])
def test_a_loader_that_gives_less_than_it_says_is_counted_as_it_gives(hosts, tmp_path, num, said):
    case = sound("Lit", "", data="modules.Stream", data_args={"num": num, "said": said}, batch_size=4)
    outcome = hosts.run(module_cell(case), tmp_path)
    assert_sound(outcome)
    # Each epoch ends with a batch of num % 4 samples, if that is not 0.
    assert outcome.measurement.samples_per_step == pytest.approx(num / -(-num // 4), rel=0.05)


@pytest.mark.parametrize(
    ("asked", "stop", "said"),
    [
        ({**TWO_STEPS, "warmup": 5, "steps": 1000, "timeout_s": 4.0}, Stop.timeout, "partial: .* of 1,000"),
        slow({"window": Window(measure_s=9.0), "timeout_s": 4.0}, Stop.timeout, "partial: .* steps, timeout_s"),
        ({"window": Window(measure_s=9.0), "budget_s": 0.5}, Stop.budget, "measured in 6 steps after 2 of warm-up"),
    ],
)
def test_slow_steps_end_in_time_and_are_checked(hosts, tmp_path, asked, stop, said):
    cell = cell_of(sound("Sleeps", "its steps are slow", breakdown_s=0.3, **asked), "honest")
    outcome = hosts.run(cell, tmp_path)
    measured = outcome.measurement
    assert (outcome.status, measured.stop) == (Status.ok, stop), (outcome.reason, outcome.error)
    assert len(measured.latency_s) == len(measured.blocks) >= 6
    # On a busy machine the comparison may take longer than timeout_s leaves, which is said.
    is_left_out = stop == Stop.timeout and NOT_IN_TIME in measured.warnings
    assert is_left_out or any(check.promise == Promise.outputs and check.share for check in measured.checks)
    row = summarise(make_record(cell, measurement=measured))
    assert re.search(said, row["warnings"])
    assert (measured.breakdown is None) == any("no phases of a step" in note for note in measured.notes)
