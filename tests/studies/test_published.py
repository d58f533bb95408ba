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


@pytest.mark.parametrize("model", STUDY_001)
def test_the_times_are_the_published_ones(model: str) -> None:
    found = [
        published.find("001", model, metric, device)
        for metric in ("train_time", "test_time")
        for device in ("cpu", "gpu", "tpu")
    ]
    assert tuple(entry.value for entry in found if entry) == STUDY_001[model]
    assert {(entry.precision, entry.unit) for entry in found if entry} == {("fp32", "s")}
    assert {entry.batch_size for entry in found if entry} == {32 if model == "autoencoder" else 128}


def test_accuracies_and_losses_name_no_device() -> None:
    rows = [entry for entry in published.load("001") if entry.metric in ("accuracy", "loss", "validation_loss")]
    assert [(entry.model, entry.metric, entry.value) for entry in rows] == [
        ("mlp", "accuracy", 97.6),
        ("cnn", "accuracy", 98.1),
        ("rnn", "accuracy", 91.8),
        ("lstm", "accuracy", 35.0),
        ("autoencoder", "loss", 0.0268),
        ("autoencoder", "validation_loss", 0.0131),
    ]
    assert {entry.device for entry in rows} == {None}


def test_every_number_has_a_source_and_appears_once() -> None:
    rows = published.load("001")
    assert all(entry.source for entry in rows)
    assert len({(entry.device, entry.model, entry.metric) for entry in rows}) == len(rows) == 41


def test_accuracies_of_training_are_not_shown_as_those_of_the_test_set() -> None:
    found = [entry for entry in published.load("004") if "accuracy" in entry.metric]
    assert {(entry.value, entry.metric, entry.assumed) for entry in found} == {
        (54.97, "train_accuracy", None),
        (55.23, "train_accuracy", None),
        (88.64, "train_accuracy", "metric"),
        (88.77, "train_accuracy", "metric"),
    }


def test_what_no_text_of_study_002_says_is_marked_as_assumed() -> None:
    assert {(entry.metric, entry.assumed) for entry in published.load("002")} == {
        ("train_time", "batch_size"),
        ("epochs", "value"),
        ("speedup_over_gpu", None),
    }


def test_a_sweep_without_a_study_has_nothing_published() -> None:
    assert published.load(None) == ()
