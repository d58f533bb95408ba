import pytest

from five_studies import published

# Copied from study 001's table: train CPU, GPU, TPU; test CPU, GPU, TPU; in seconds.
STUDY_001 = {
    "mlp": (71.622, 8.983, 70.666, 0.929, 0.335, 0.954),
    "cnn": (1259.83, 36.711, 1271.57, 5.41, 0.533, 5.626),
    "rnn": (125.111, 38.01, 126.034, 6.573, 0.938, 6.952),
    "lstm": (398.724, 16.914, 364.476, 18.504, 1.525, 21.61),
    "autoencoder": (127.795, 8.172, 142.383, 5.327, 1.25, 5.935),
}
LEARNT_001 = {
    *(("mlp", "accuracy", 97.6), ("cnn", "accuracy", 98.1), ("rnn", "accuracy", 91.8), ("lstm", "accuracy", 35.0)),
    *(("autoencoder", "loss", 0.0268), ("autoencoder", "validation_loss", 0.0131)),
}


@pytest.mark.parametrize("model", STUDY_001)
def test_the_times_are_the_published_ones(model: str) -> None:
    places = [(metric, device) for metric in ("train_time", "test_time") for device in ("cpu", "gpu", "tpu")]
    found = [published.find("001", model, *place) for place in places]
    assert tuple(entry.value for entry in found) == STUDY_001[model]
    batch_size = 32 if model == "autoencoder" else 128
    assert {(entry.precision, entry.unit, entry.batch_size) for entry in found} == {("fp32", "s", batch_size)}


def test_every_number_has_a_source_and_what_no_text_says_is_marked_as_assumed() -> None:
    rows = published.load("001")
    assert all(entry.source for entry in rows)
    assert len({(entry.device, entry.model, entry.metric) for entry in rows}) == len(rows) == 51
    learnt = [entry for entry in rows if entry.metric in ("accuracy", "loss", "validation_loss")]
    assert {(entry.model, entry.metric, entry.value) for entry in learnt} == LEARNT_001
    assert {entry.device for entry in learnt} == {None}
    assert {(entry.metric, entry.assumed) for entry in published.load("002")} == {
        *(("train_time", "batch_size"), ("epochs", "value"), ("speedup_over_gpu", None), ("devices", None)),
        *(("train_samples", "value"), ("test_samples", "value")),
    }
    found = {(e.metric, e.value, e.assumed) for e in published.load("004") if "accuracy" in e.metric}
    assert found == {
        *(("train_accuracy", 54.97, None), ("train_accuracy", 55.23, None)),
        *(("train_accuracy", 88.64, "metric"), ("train_accuracy", 88.77, "metric")),
    }


def test_the_only_figure_of_study_004_cannot_be_of_seconds() -> None:
    """Its caveat says so: training takes six operations for each weight and image."""
    weights = 3072 * 3000 + 3000 * 1000 + 1000 * 10
    assert round(6 * weights * 10 * 50_000 / 14 / 1e12, 1) == 2.6
    (entry,) = (each for each in published.load("004") if each.metric == "speedup_over_cpu")
    assert (entry.value, entry.assumed) == (14 / 2, "value")
    assert "2.6 TFLOP/s" in published.caveats("004")[0]
