"""How a benchmark lies: what was wrong with the five studies, and what accelbench does about each."""

from dataclasses import dataclass
from enum import StrEnum

from accelbench.report.tables.table import Column, Table, tabulate, word


class Answer(StrEnum):
    """What becomes of such a number here."""

    impossible = "impossible"
    invalid = "invalid"
    shown = "shown"


@dataclass(frozen=True, kw_only=True)
class Lie:
    """A way to publish a false number.

    Attributes:
        study: which of the five did.
        claim: what was done.
        answer: what accelbench makes of it.
        how: by which means.
        test: the test that shows it, as `file::function`.
    """

    study: str
    claim: str
    answer: Answer
    how: str
    test: str


LIES = [
    Lie(
        study="000",
        claim="The GPU's time was taken when the work was launched, the TPU's when it was recorded.",
        answer=Answer.impossible,
        how="Every block ends with a wait for the device. The launch time stands beside the waited-for time.",
        test="tests/measuring/test_clock.py::test_a_device_that_returns_before_it_is_done_is_measured_whole",
    ),
    Lie(
        study="000",
        claim="Totals held the compilation, spread over 10 steps.",
        answer=Answer.impossible,
        how="Compilation is timed apart. Rates exclude warm-up and the first epoch; a "
        "warning names what is compiled later.",
        test="tests/measuring/test_clock.py::test_compilation_stays_out_of_the_steady_state",
    ),
    Lie(
        study="000",
        claim="A server's CPU used one core of 128, and tied with a laptop's.",
        answer=Answer.shown,
        how="All cores are used unless threads= says otherwise; the threads that ran stand with every number.",
        test="tests/engines/lightning/test_engine.py::test_threads_are_as_asked",
    ),
    Lie(
        study="000",
        claim='The GPU\'s "float32" was TF32.',
        answer=Answer.invalid,
        how="tf32 is a precision of its own; fp32 is fp32, and a cell that ran in another precision is invalid.",
        test="tests/engines/lightning/test_engine.py::test_a_substituted_precision_is_seen",
    ),
    Lie(
        study="000",
        claim="Means over different populations were compared: four number formats on the GPU, two on the CPU.",
        answer=Answer.impossible,
        how="A speed-up is of two cells that are equal in all but the device, never of means.",
        test="tests/report/test_study_comparison.py::test_no_speedup_between_cells_that_differ_in_more_than_the_device",
    ),
    Lie(
        study="000",
        claim="Utilisation was read once, after the run, averaged over three GPUs of which one was used.",
        answer=Answer.impossible,
        how="The sampler's series cover the cell's life; its mean is of the steady state, of the GPU that computes.",
        test="tests/judging/test_row.py::test_memory_and_utilisation_over_the_steady_state",
    ),
    Lie(
        study="000",
        claim="The text says 32 steps, the logs hold 10; nothing warmed up.",
        answer=Answer.impossible,
        how="The record keeps every measured step; protocol=steps runs exactly as many as asked for, "
        "after its warm-up.",
        test="tests/measuring/test_clock.py::test_a_fixed_number_of_steps_is_just_that",
    ),
    Lie(
        study="000",
        claim="The TPU inferred without eval() and no_grad().",
        answer=Answer.impossible,
        how="Inference goes through Lightning's predict loop, in evaluation mode and without gradients.",
        test="tests/engines/lightning/test_engine.py::test_inference_is_in_evaluation_mode_without_gradients",
    ),
    Lie(
        study="000",
        claim="The CPU's peak that it states is exceeded 7.3-fold by its own numbers.",
        answer=Answer.invalid,
        how="Each device's ceiling is probed. A cell above it gets a warning; beyond what a faster "
        "algorithm explains, it is invalid.",
        test="tests/sweep/test_prober.py::test_a_cell_beyond_what_an_algorithm_explains_is_invalid",
    ),
    Lie(
        study="000",
        claim="Times beat the device's peak: 1,524 TFLOP/s on a card with 312.",
        answer=Answer.shown,
        how="The study's own raw data goes through a check of plausibility, which finds those rows.",
        test="tests/judging/test_plausibility.py::test_a_launch_time_is_told_from_a_computing_time",
    ),
    Lie(
        study="001",
        claim="The TPU was almost certainly never used.",
        answer=Answer.invalid,
        how="The device that computed is read from the result; a cell that ran elsewhere is invalid.",
        test="tests/test_worker.py::test_another_device_or_precision_is_not_what_was_asked",
    ),
    Lie(
        study="001",
        claim="Two figures are second runs, without the cold start that the others include.",
        answer=Answer.impossible,
        how="Each cell is a fresh process; its first step stands apart from the steady state.",
        test="tests/isolation/test_hosts.py::test_each_cell_has_a_process_of_its_own",
    ),
    Lie(
        study="001",
        claim='A speed-up of "3332 %" is one of 34.3 times.',
        answer=Answer.shown,
        how="Speed-ups are CPU time / device time; the study's own percentage stands beside, under its name.",
        test="tests/report/test_study_comparison.py::test_published_speedups_are_those_of_the_study",
    ),
    Lie(
        study="001",
        claim="The RNN is slower than the LSTM on the GPU, since the LSTM alone has a fused kernel.",
        answer=Answer.shown,
        how="Each cell lists the operators that take most of its time: a whole layer for an "
        "LSTM, products per time step for an RNN.",
        test="tests/engines/lightning/test_busiest.py::test_an_lstm_has_a_fused_kernel_and_an_rnn_has_none",
    ),
    Lie(
        study="002",
        claim="Compilation was inside the times.",
        answer=Answer.shown,
        how="The first epoch holds it and is left out of the rate; compile_s and first_step_s stand apart.",
        test="tests/judging/test_row.py::test_a_fits_time_is_measured_and_its_rate_without_the_first_epoch",
    ),
    Lie(
        study="002",
        claim="The batch was 8 times larger on the TPU.",
        answer=Answer.impossible,
        how="A speed-up is of two cells of one batch size; the batch per device is a column of its own.",
        test="tests/report/test_study_comparison.py::test_no_speedup_between_cells_that_differ_in_more_than_the_device",
    ),
    Lie(
        study="002",
        claim="Training waited for its data, and the device was blamed.",
        answer=Answer.shown,
        how="The share of a step that waits for its batch stands with every cell.",
        test="tests/engines/lightning/test_data.py::test_decoding_for_each_batch_is_seen_as_data_wait",
    ),
    Lie(
        study="002",
        claim='Accuracy was "equal", by eye.',
        answer=Answer.shown,
        how="Accuracies are compared over seeds, with an interval of their difference.",
        test="tests/report/tables/test_accuracy_by_device.py::test_equal_accuracies_are_judged_by_the_interval",
    ),
    Lie(
        study="003",
        claim='"FPS" was batches per second.',
        answer=Answer.impossible,
        how="Throughput counts samples.",
        test="tests/measuring/test_clock.py::test_a_device_that_returns_before_it_is_done_is_measured_whole",
    ),
    Lie(
        study="003",
        claim="The batch sweep used 5 + 20 iterations, not the stated 10 + 50.",
        answer=Answer.impossible,
        how="The number of steps is part of the cell's identity, and the record holds each.",
        test="tests/schema/test_cell.py::test_the_number_of_steps_is_part_of_the_id_where_it_is_what_is_run",
    ),
    Lie(
        study="004",
        claim='The "GPU" run fell back to the CPU in silence: 221 s against 227 s.',
        answer=Answer.invalid,
        how="The device that computed is read from the result; a cell that ran elsewhere is invalid.",
        test="tests/test_worker.py::test_another_device_or_precision_is_not_what_was_asked",
    ),
]


COLUMNS: list[Column[Lie]] = [
    Column("study", lambda lie: word(lie.study)),
    Column("what was done", lambda lie: word(lie.claim)),
    Column("here", lambda lie: word(lie.answer)),
    Column("how", lambda lie: word(lie.how)),
    Column("the test that shows it", lambda lie: word(lie.test)),
]


def table() -> Table:
    """The lies as the report's table."""
    notes = [
        "Impossible: there is no way to get such a number. Invalid: such a cell is recorded with its reason, and "
        "its numbers are not published. Shown: what tells it apart stands beside it.",
    ]
    return tabulate("How a benchmark lies", COLUMNS, LIES, notes)
