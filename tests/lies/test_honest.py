"""Sound code that looks like some that lies: it stays ok, without a warning that it does not deserve."""

import pytest

from accelbench.schema.cell import TrainerSettings
from accelbench.schema.vocab import Mode, Pipeline, Precision, Protocol, Status
from lies.test_lies import Case, cell_of, module_cell, named

# Of how it was measured, and not of what the code does.
ABOUT_NOISE = ("noisy", "blocks", "step times", "outliers", "the speed", "the median step")
DEPENDS = "as long again with the same: the speed is that of the inputs that were fed"  # true of those that exit early
BF16, TOKENS, INFER = {"precision": Precision.bf16}, {"data": "honest.TokenData"}, {"mode": Mode.infer}
TWO_STEPS = {"protocol": Protocol.steps, "warmup": 0, "steps": 2}


def sound(name, looks, **more):
    return Case(name, looks, more=more)


NETWORKS = [
    sound("WithState", "the same inputs give different outputs"),
    sound("DropsOnPurpose", "drops at random in inference"),
    sound("MonteCarlo", "samples at random in inference"),
    sound("DropoutLeftOn", "its dropout is in training mode in inference"),
    sound("FrozenBackbone", "most weights do not change, and are in evaluation mode", loss="square"),
    sound("TiedWeights", "one tensor has two names", loss="square", batch="ids"),
    sound("TiedWeights", "one tensor has two names", batch="ids"),
    sound("FewRowsChange", "few rows of a large tensor change", loss="square", batch="ids", optimizer="sparse_sgd"),
    sound("Checkpointed", "computes its forward pass twice", loss="square"),
    sound("Experts", "some experts get no sample of a batch", loss="square"),
    sound("Experts", "the work depends on the inputs"),
    sound("Normalised", "its buffers change without gradients", loss="square"),
    sound("SkipsLayers", "its steps differ in their work", loss="square"),
    sound("ZeroHead", "its output is the same for all inputs"),
    sound("AttendsToBatch", "an output depends on the other samples"),
    sound("HardAnswers", "different inputs have the same output"),
    sound("Structured", "returns an object"),
    sound("TimeFirst", "two dimensions of its output are as long as the batch"),
    sound("Fp32Head", "some products in fp32 where bf16 was asked for", **BF16),
    sound("Honest", "rounding in bf16", **BF16),
    sound("Honest", "rounding may swallow steps", loss="square", **BF16),
    sound("Honest", "every input is new", pipeline=Pipeline.fresh),
    sound("Honest", "one batch alone", pipeline=Pipeline.device),
    sound("Honest", "one sample alone", batch_size=1),
    sound("Honest", "all its inputs are ones", batch="ones"),
    sound("Honest", "all its inputs are ones, in bf16", batch="ones", **BF16),
    sound("DropsOnPurpose", "all its inputs are ones, and it drops at random", batch="ones"),
    sound("HardAnswers", "one sample alone, always the same", batch="fixed", batch_size=1),
    sound("TiedWeights", "one sequence alone, always the same", batch="fixed_ids", batch_size=1),
    sound("TiedWeights", "all its tokens are the same", batch="same_ids"),
    sound("Decides", "one sample alone, which has one of two outputs", batch_size=1),
    sound("Decides", "its inputs have one of two outputs"),
    sound("ExitsEarly", "how much it computes depends on the inputs"),
    sound("ExitsEarly", "how much it trains depends on the inputs", loss="square"),
]
MODULES = [
    sound("Gan", "two optimisers, of which one waits every second batch"),
    sound("AccumulatesByHand", "most steps change no weight"),
    sound(
        "Lit", "accumulates more steps than are run", **TWO_STEPS, trainer=TrainerSettings(accumulate_grad_batches=8)
    ),
    sound("AccumulatesByHand", "the same by hand", **TWO_STEPS),
    sound("TimeFirstBatch", "a hook makes the first dimension of inputs shorter than the batch"),
    sound("Pairs", "a hook halves the first dimension of a batch"),
    sound("WarmsUp", "its learning rate begins at 0"),
    sound("KeepsAverages", "has weights that nothing trains"),
    sound("Crops", "its hooks change batches"),
    sound("Lit", "trains on a stream without a length", data="honest.StreamData"),
    sound("Lit", "accumulates gradients as asked", trainer=TrainerSettings(accumulate_grad_batches=4)),
    sound("Lit", "infers", **INFER),
    sound("Lit", "infers one sample", batch_size=1, **INFER),
    sound("Embeds", "infers one sequence", batch_size=1, **TOKENS, **INFER),
    sound("Embeds", "all its tokens are the same", data_args={"same": True}, **TOKENS, **INFER),
]


def assert_sound(outcome):
    assert outcome.status == Status.ok, (outcome.reason, outcome.error)
    said = [text for text in outcome.measurement.warnings if not text.startswith(ABOUT_NOISE) and DEPENDS not in text]
    assert said == []


@pytest.mark.parametrize("case", NETWORKS, ids=named)
def test_a_sound_network_is_not_accused(hosts, tmp_path, case):
    assert_sound(hosts.run(cell_of(case, "networks" if case.name == "Honest" else "honest"), tmp_path))


@pytest.mark.parametrize("case", MODULES, ids=named)
def test_a_sound_module_is_not_accused(hosts, tmp_path, case):
    assert_sound(hosts.run(module_cell(case, "modules" if case.name == "Lit" else "honest"), tmp_path))


@pytest.mark.parametrize(("num", "said"), [(20, 40), (7, 30), (20, 22), (64, 80)])
def test_a_loader_that_gives_less_than_it_says_is_counted_as_it_gives(hosts, tmp_path, num, said):
    case = sound("Lit", "", data="modules.Estimated", data_args={"num": num, "said": said}, batch_size=4)
    outcome = hosts.run(module_cell(case), tmp_path)
    assert_sound(outcome)
    # Each epoch ends with a batch of num % 4 samples, if that is not 0.
    assert outcome.measurement.samples_per_step == pytest.approx(num / -(-num // 4), rel=0.05)
