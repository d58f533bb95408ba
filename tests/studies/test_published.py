from five_studies import published


def test_every_number_has_a_source_and_what_no_text_says_is_marked_as_assumed() -> None:
    rows = published.load("001")
    assert all(entry.source for entry in rows)
    assert len({(entry.device, entry.model, entry.metric) for entry in rows}) == len(rows) == 51
    assert {(entry.metric, entry.assumed) for entry in published.load("002")} == {
        *(("train_time", "batch_size"), ("epochs", "value"), ("speedup_over_gpu", None), ("devices", None)),
        *(("train_samples", "value"), ("test_samples", "value")),
    }
