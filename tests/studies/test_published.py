from five_studies import published


def test_every_number_has_a_source_and_what_no_text_says_is_marked_as_assumed() -> None:
    rows = published.load("001")
    assert all(entry.source for entry in rows)
    assert len({(entry.device, entry.model, entry.metric) for entry in rows}) == len(rows) == 51
    assert {(entry.metric, entry.assumed) for entry in published.load("002")} == {
        *(("train_time", "batch_size"), ("epochs", "value"), ("speedup_over_gpu", None), ("devices", None)),
        *(("train_samples", "value"), ("test_samples", "value")),
    }


def test_the_only_figure_of_study_004_cannot_be_of_seconds() -> None:
    """Its caveat says so: training takes six operations for each weight and image."""
    weights = 3072 * 3000 + 3000 * 1000 + 1000 * 10
    assert round(6 * weights * 10 * 50_000 / 14 / 1e12, 1) == 2.6
    (entry,) = (each for each in published.load("004") if each.metric == "speedup_over_cpu")
    assert (entry.value, entry.assumed) == (14 / 2, "value")
    assert "2.6 TFLOP/s" in published.caveats("004")[0]
