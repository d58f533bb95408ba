"""The numbers that the studies published, to compare ours with."""

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

from accelbench.schema.vocab import Precision

# Sentences to read before comparing with a study's numbers.
CAVEATS = {
    "000": [
        "The study did not wait for the device between its two timers, so its split into inference and communication "
        "is wrong. Its totals per image are shown here, and its share of copying as published.",
        "The study's TPU totals include XLA's compilation, spread over 10 steps. Its float32 on the TPU multiplies in "
        "bf16, XLA's default; ours multiplies in fp32.",
        "The study's CPU and GPU numbers are from runs of 512 steps. Of vgg19 and xception on the EPYC it has only 10 "
        "steps; they are left out.",
        "The study's EPYC 7763 used one of its 128 cores: a laptop's CPU is as fast.",
        "The study's float32 on the A100 is TF32; it is compared with our tf32.",
        "The study drew new random images for each step. Here 8 batches are drawn in advance and used in turn, so that "
        "drawing is not measured; data.pipeline=fresh draws for each step, and the wait for data shows its cost.",
    ],
    "001": [
        "The study's code selects no TPU strategy: its TPU times are almost certainly CPU times.",
        "The study's autoencoder times on the GPU and the TPU are from second runs, without the cold start that its "
        "other times include. It publishes a validation loss too, so its training time seems to hold a pass over the "
        "test images; ours is of the training epochs alone.",
        "The study's testing time is of Keras' evaluate: a pass over the test images with loss and accuracy. It stands "
        "beside our evaluation, which protocol=fit times after each epoch, and beside inference alone.",
        "The study ran on Google Colab in 2021 and does not name the CPU, GPU or TPU models.",
    ],
    "002": [
        "The study scaled its batch with the TPU's 8 cores: its speed-up mixes device and batch size. Its TPU "
        "multiplies float32 in bf16, the default; ours multiplies in fp32.",
        "The study's text names neither batch, epochs nor layers. Assumed, from the notebook that it names as its "
        "base: batch 32 on the GPU and on each core, 10 epochs, 20,000 training and 5,000 validation pictures.",
        "The study's times include compilation. At 17 % of the T4's peak, it probably waited for its data. They "
        "probably also hold the validation after each epoch, whose accuracy it plots; ours are of the training epochs "
        "alone.",
    ],
    "003": [
        "The study's frames per second are batches per second: only its times are shown here.",
        "The study's batch sweep ran 5 + 20 iterations; its text says 10 + 50.",
        "The study gives no code for its medium and large networks: here they are wider versions of the small one.",
    ],
    "004": [
        "The study gives no usable times. The published times here are of the same networks from another source "
        "(codebasics, 10_gpu_benchmarking).",
        "These times are of one run, with building and compiling. The published accuracies are of the last epoch's "
        "training batches, not of the test set (for Fashion-MNIST this is assumed): they stand beside our training "
        "accuracy.",
        "The study's output layer has 10 sigmoids, under categorical cross-entropy. Keras on TensorFlow computes that "
        "loss from the numbers that the sigmoids got, as softmax cross-entropy; so do ours, and they learn the same.",
    ],
}


@dataclass(frozen=True, kw_only=True)
class Published:
    """One published number.

    Attributes:
        device: None if the source does not say.
        model: the network; `all` for a mean over all of the study's.
        batch_size: None if the source does not say.
        metric: `train_time`, `test_time` (s), `accuracy` (of the test set), `train_accuracy` (of the last epoch; %),
            `loss` (of training), `validation_loss`, `epochs`, `one_epoch_time` (s), `time_per_image`, `latency` (ms),
            `communication_share` (%), `peak_memory` (MB), `utilization` (%), `power` (W), `temperature` (°C);
            `speedup_over_<device>` (x), or its bounds with `low_` and `high_` before it, or with `end_to_end_` the same
            from the study's raw data.
        assumed: which of these the source does not say: `batch_size`, `metric` or `value`.
        source: where the number was published.
    """

    study: str
    device: str | None
    model: str
    precision: Precision
    batch_size: int | None
    metric: str
    value: float
    unit: str
    assumed: str | None
    source: str


@cache
def load(study: str | None) -> tuple[Published, ...]:
    """The numbers of `study`, in the order of its tables; empty for a study without numbers here."""
    with resources.files("accelbench.report").joinpath("published.csv").open(encoding="utf-8") as file:
        return tuple(_parse(row) for row in csv.DictReader(file) if row["study"] == study)


def find(study: str | None, model: str, metric: str, device: str | None) -> Published | None:
    """The published number; None if the study has no such number."""
    wanted = (model, metric, device)
    return next((entry for entry in load(study) if (entry.model, entry.metric, entry.device) == wanted), None)


def _parse(row: dict[str, str]) -> Published:
    return Published(
        study=row["study"],
        device=row["device"] or None,
        model=row["model"],
        precision=Precision(row["precision"]),
        batch_size=int(row["batch_size"]) if row["batch_size"] else None,
        metric=row["metric"],
        value=float(row["value"]),
        unit=row["unit"],
        assumed=row["assumed"] or None,
        source=row["source"],
    )
