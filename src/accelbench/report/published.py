"""The numbers that the studies published: data to compare with, never ours."""

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

from accelbench.schema.vocab import Precision

# What a reader must know before comparing with a study's numbers.
CAVEATS = {
    "000": [
        "The study's split into inference and communication is not to be believed: nothing was waited for in between. "
        "Its totals per image are shown here, and what it takes for the share of copying.",
        "Its TPU totals hold XLA's compilation, over 10 steps, and what it calls float32 there multiplies in bf16, as "
        "XLA does by default; ours multiplies in fp32.",
        "Its CPU and GPU numbers are those of 512 steps; of the EPYC's vgg19 and xception there are 10 alone, and they "
        "are left out.",
        "Its EPYC 7763 worked with one core of 128: a laptop's CPU ties with it.",
        "What it calls float32 on the A100 is TF32, and stands beside our tf32.",
        "It drew new random images for each step; here 8 batches are drawn ahead and taken in turn, since drawing is "
        "not what is measured; data.pipeline=fresh draws as it did, and the wait for data tells what that takes.",
    ],
    "001": [
        "The study's code selects no TPU strategy: its TPU column is almost certainly a CPU's time.",
        "The study's autoencoder times on the GPU and the TPU are second runs, without the cold start that its "
        "other times include.",
        "The study ran on Google Colab in 2021; its text names no CPU, GPU or TPU model.",
    ],
    "002": [
        "The study's TPU trained with batches of 256, its GPU with 32: its speed-up is of both at once. The TPU "
        "multiplies float32 in bf16 by default; ours, in fp32.",
        "Its times hold compilation, and at 17 % of the T4's peak it likely waited for its data.",
    ],
    "003": [
        "What the study calls frames per second are batches per second: only its times are shown here.",
        "Its batch sweep ran 5 + 20 iterations, not the 10 + 50 of its text.",
        "It gives no code for the medium and the large network: here they are the small one, widened.",
    ],
    "004": [
        "The study gives no times that can be used; the published ones are of the same networks elsewhere "
        "(codebasics, 10_gpu_benchmarking).",
        "They hold building and compiling, in one run.",
    ],
}


@dataclass(frozen=True, kw_only=True)
class Published:
    """One published number.

    Attributes:
        device: None where the source does not say.
        batch_size: None where the source does not say.
        metric: `train_time`, `test_time` (s), `accuracy` (%), `loss`, `validation_loss`, `epochs`,
            `time_per_image`, `latency` (ms), `communication_share` (%) or `peak_memory` (MB).
        source: where it was published.
    """

    study: str
    device: str | None
    model: str
    precision: Precision
    batch_size: int | None
    metric: str
    value: float
    unit: str
    source: str


@cache
def load(study: str | None) -> tuple[Published, ...]:
    """What `study` published, in the order of its tables; nothing for a study that has no numbers here."""
    with resources.files("accelbench.report").joinpath("published.csv").open(encoding="utf-8") as file:
        return tuple(_parse(row) for row in csv.DictReader(file) if row["study"] == study)


def find(study: str | None, model: str, metric: str, device: str | None) -> Published | None:
    """The published number, or None where there is none."""
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
        source=row["source"],
    )
