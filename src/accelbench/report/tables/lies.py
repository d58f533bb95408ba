"""How a benchmark lies: what was wrong with the five studies, and what accelbench does about it."""

from dataclasses import dataclass
from enum import StrEnum

from accelbench.report.tables.table import Column, Table, tabulate, word


class Remedy(StrEnum):
    """What accelbench does about a way to publish a false number."""

    impossible = "impossible"
    invalid = "invalid"
    shown = "shown"


@dataclass(frozen=True, kw_only=True)
class Lie:
    """A way to publish a false number.

    Attributes:
        study: the study that did it.
        claim: what the study did.
        answer: what accelbench does about it.
        how: by which means.
        test: the test that shows it, as `file::function`.
    """

    study: str
    claim: str
    answer: Remedy
    how: str
    test: str


LIES = [
    Lie(
        study="000",
        claim="GPU times ended at the launch of the work, TPU times at its recording: no result was waited for.",
        answer=Remedy.impossible,
        how="Every block ends with a wait for the device. The launch time is a column beside the latency.",
        test="tests/measuring/test_clock.py::test_a_device_that_returns_before_it_is_done_is_measured_whole",
    ),
    Lie(
        study="000",
        claim="Totals included the compilation, spread over 10 steps.",
        answer=Remedy.impossible,
        how="Compilation is timed apart, before the window. Rates leave out the first epoch. Later compilation causes "
        "a warning.",
        test="tests/measuring/test_clock.py::test_compilation_stays_out_of_the_steady_state",
    ),
    Lie(
        study="000",
        claim="A server's CPU used one of its 128 cores, and was as fast as a laptop's.",
        answer=Remedy.shown,
        how="All cores are used unless threads= is set; the number that ran is a column, empty for XLA and JAX, which "
        "use all.",
        test="tests/engines/lightning/test_engine.py::test_threads_are_as_asked",
    ),
    Lie(
        study="000",
        claim='The GPU\'s "float32" was TF32.',
        answer=Remedy.invalid,
        how="tf32 and fp32 are different precisions; a cell that ran in another precision than asked for is invalid.",
        test="tests/engines/lightning/test_engine.py::test_a_substituted_precision_is_seen",
    ),
    Lie(
        study="000",
        claim="Means over different sets were compared: over four number formats on the GPU, over two on the CPU.",
        answer=Remedy.impossible,
        how="A speed-up compares two cells that differ only in the device, never means.",
        test="tests/report/test_study_comparison.py::test_no_speedup_between_cells_that_differ_in_more_than_the_device",
    ),
    Lie(
        study="000",
        claim="Headline speed-ups (744.41, 48.28, 15.42) divide launch times; end to end, its raw data gives 127, 0.84 "
        "and 151.",
        answer=Remedy.shown,
        how="Speed-ups are of waited-for work, from start to end; the report shows the study's raw data beside them.",
        test="tests/report/tables/test_device_pairs.py::test_the_headline_stands_beside_what_its_raw_data_gives",
    ),
    Lie(
        study="000",
        claim="Utilisation was read once, after the run, as the mean over three GPUs, only one of which was used.",
        answer=Remedy.impossible,
        how="Utilisation is sampled while the cell runs; the mean is over the steady state of the GPU that computes.",
        test="tests/judging/test_row.py::test_memory_and_utilisation_over_the_steady_state",
    ),
    Lie(
        study="000",
        claim="The text says 32 steps, the logs show 10; there was no warm-up.",
        answer=Remedy.impossible,
        how="The record has every measured step; protocol=steps runs exactly the given number, after a warm-up.",
        test="tests/measuring/test_clock.py::test_a_fixed_number_of_steps_is_just_that",
    ),
    Lie(
        study="000",
        claim="Inference on the TPU ran without eval() and no_grad().",
        answer=Remedy.impossible,
        how="Inference runs in Lightning's predict loop, in evaluation mode and without gradients.",
        test="tests/engines/lightning/test_engine.py::test_inference_is_in_evaluation_mode_without_gradients",
    ),
    Lie(
        study="000",
        claim="The study's CPU numbers exceed the CPU's peak that it states, 7.3-fold.",
        answer=Remedy.invalid,
        how="Each device's peak is measured. A cell above it gets a warning; one beyond any algorithm is invalid.",
        test="tests/sweep/test_prober.py::test_a_cell_beyond_what_an_algorithm_explains_is_invalid",
    ),
    Lie(
        study="000",
        claim="Times are too short for the device: 1,523 TFLOP/s on a card with a peak of 312.",
        answer=Remedy.shown,
        how="A plausibility check finds 133 of the 432 rows of the study's GPU data impossible, such as this: vgg16 "
        "in fp16.",
        test="tests/judging/test_plausibility.py::test_a_launch_time_is_told_from_a_computing_time",
    ),
    Lie(
        study="001",
        claim="The TPU was almost certainly never used.",
        answer=Remedy.invalid,
        how="The device that computed is read from the result; a cell that ran on another device is invalid.",
        test="tests/judging/test_asked.py::test_another_device_or_precision_is_not_what_was_asked",
    ),
    Lie(
        study="001",
        claim="Two times are from second runs, without the cold start that the other times include.",
        answer=Remedy.impossible,
        how="Each cell runs in a fresh process; its first step is not part of the steady state.",
        test="tests/isolation/test_host.py::test_each_cell_has_a_process_of_its_own",
    ),
    Lie(
        study="001",
        claim='A speed-up of 34.3 times is printed as "3332 %".',
        answer=Remedy.shown,
        how="Speed-ups are CPU time / device time; the study's percentage has a column of its own.",
        test="tests/report/test_study_comparison.py::test_published_speedups_are_those_of_the_study",
    ),
    Lie(
        study="001",
        claim="The RNN is slower than the LSTM on the GPU, because only the LSTM has a fused kernel.",
        answer=Remedy.shown,
        how="Lightning's cells, but for XLA, name their busiest operators: one for an LSTM's layer, many products for "
        "an RNN.",
        test="tests/engines/lightning/test_busiest.py::test_an_lstm_has_a_fused_kernel_and_an_rnn_has_none",
    ),
    Lie(
        study="002",
        claim="Times included compilation.",
        answer=Remedy.shown,
        how="The rate leaves out the first epoch, which includes it; first_step_s is a column, and compile_s if "
        "anything compiled.",
        test="tests/judging/test_row.py::test_a_fits_time_is_measured_and_its_rate_without_the_first_epoch",
    ),
    Lie(
        study="002",
        claim="Batches were larger on the TPU: they were scaled with its 8 cores.",
        answer=Remedy.impossible,
        how="A speed-up compares two cells of the same batch size; the batch per device is a column.",
        test="tests/report/test_study_comparison.py::test_no_speedup_between_cells_that_differ_in_more_than_the_device",
    ),
    Lie(
        study="002",
        claim="Training waited for data, which was taken for slowness of the device.",
        answer=Remedy.shown,
        how="The share of the time that waits for batches is a column, empty where the framework fetches them inside "
        "a step.",
        test="tests/engines/lightning/test_data.py::test_decoding_for_each_batch_is_seen_as_data_wait",
    ),
    Lie(
        study="002",
        claim='Accuracy was "equal", by eye.',
        answer=Remedy.shown,
        how="Accuracies are compared over seeds, with an interval of the difference.",
        test="tests/report/tables/test_accuracy_by_device.py::test_equal_accuracies_are_judged_by_the_interval",
    ),
    Lie(
        study="003",
        claim='"FPS" was batches per second.',
        answer=Remedy.impossible,
        how="Throughput counts samples.",
        test="tests/measuring/test_clock.py::test_a_device_that_returns_before_it_is_done_is_measured_whole",
    ),
    Lie(
        study="003",
        claim="The batch sweep ran 5 + 20 iterations; the text says 10 + 50.",
        answer=Remedy.impossible,
        how="The number of steps is part of the cell's identity, and the record has every step.",
        test="tests/schema/test_cell.py::test_the_number_of_steps_is_part_of_the_id_where_it_is_what_is_run",
    ),
    Lie(
        study="004",
        claim="Accuracies of 54.97 and 55.23 % are of the training batches; the text does not say so.",
        answer=Remedy.shown,
        how="Training and test accuracy are different columns, and a published number stands beside the same of ours.",
        test="tests/report/tables/test_study.py::test_a_published_accuracy_stands_beside_ours_of_the_same_thing",
    ),
    Lie(
        study="004",
        claim='The "GPU" run silently ran on the CPU: it took 221 s, the CPU run 227 s.',
        answer=Remedy.invalid,
        how="The device that computed is read from the result; a cell that ran on another device is invalid.",
        test="tests/judging/test_asked.py::test_another_device_or_precision_is_not_what_was_asked",
    ),
]


# What each study measured.
STUDIES = {
    "000": "ImageNet inference",
    "001": "MNIST networks",
    "002": "cats and dogs",
    "003": "inference scaling",
    "004": "MLPs in TensorFlow",
}
COLUMNS: list[Column[Lie]] = [
    Column("study", lambda lie: word(f"{lie.study}, {STUDIES[lie.study]}")),
    Column("what was done", lambda lie: word(lie.claim)),
    Column("here", lambda lie: word(lie.answer)),
    Column("how", lambda lie: word(lie.how)),
    Column("the test that shows it", lambda lie: word(lie.test)),
]


def table() -> Table:
    """`LIES` as the report's table."""
    notes = [
        "Impossible: accelbench can't produce such a number. Invalid: such a cell is recorded with the reason, and its "
        "numbers are not published. Shown: the report shows the figure that reveals it.",
    ]
    return tabulate("How a benchmark lies", COLUMNS, LIES, notes)
