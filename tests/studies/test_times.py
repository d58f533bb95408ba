from accelbench.schema.measurement import Epoch, Evaluation
from accelbench.schema.vocab import Mode, Protocol
from five_studies import times
from five_studies.comparison import compare_with_published
from report.tables.rows import texts


def test_times_stand_beside_the_published_with_the_settings_of_ours(read, maker) -> None:
    fit = maker.ok(maker.cell(protocol=Protocol.fit), 20_000)
    window = maker.ok(maker.cell("cnn", device="xla_cpu", batch_size=64, epochs=10), 2000)
    table = times.table(read([fit, window]), Mode.train)
    assert texts(table, "mlp", "cpu") == [
        {
            "network": "mlp",
            "device": "cpu",
            "ours (s)": "15.0",
            "ours: speed-up (x)": "1.00",
            "ours: cell": "fp32, batch 128, 5 x 60,000 samples, fit",
            "published (s)": "71.622",
            "published: speed-up (x)": "1.00",
            "published: speed-up as the study prints it (%)": "0",
        }
    ]
    (row,) = texts(table, "cnn", "xla_cpu")
    assert (row["ours (s)"], row["ours: cell"]) == ("~300", "fp32, batch 64, 10 x 60,000 samples, window")
    assert (row["ours: speed-up (x)"], row["published (s)"]) == ("–", "–")
    (gpu,) = texts(table, "cnn", "gpu")
    assert gpu["ours: cell"] == "not planned"
    assert gpu["published: speed-up as the study prints it (%)"] == "3,332"
    assert "(CPU time / device time - 1) x 100 %" in " ".join(table.notes)


def test_an_evaluations_time_stands_beside_inference_alone(read, maker) -> None:
    def tested(seconds):
        tested = Evaluation(num_samples=10_000, seconds=seconds, loss=0.1, accuracy=0.9)
        return Epoch(seconds=1, num_samples=60_000, evaluation=tested)

    fit = maker.cell(protocol=Protocol.fit, epochs=3)
    trained = maker.ok(fit, 1000, epochs=[tested(seconds) for seconds in (9.0, 0.5, 0.7)])
    (row, *_) = texts(times.table(read([trained, maker.ok(maker.cell(mode=Mode.infer), 20_000)]), Mode.infer))
    assert (row["ours (s)"], row["ours: one evaluation (s)"], row["published (s)"]) == ("~0.500", "0.600", "0.929")


def test_settings_that_the_source_does_not_name_are_marked_as_assumed(read, maker) -> None:
    table = times.table(read([maker.ok(maker.cell("pets_cnn"), 100)], study="002"), Mode.train)
    assert "batch 32 (assumed), 10 epochs (assumed): pets_cnn on gpu" in " ".join(table.notes)
    assert "training epochs alone" in " ".join(table.notes)


def test_times_without_a_study_have_no_published_columns(read, maker) -> None:
    sweep = read([maker.ok(maker.cell(), 1000)], study=None)
    assert times.table(sweep, Mode.train).headings[-1] == "ours: cell"
    assert times.table(sweep, Mode.infer) is None


def test_bars_say_what_is_estimated_of_what_work_and_that_a_studys_may_be_another(read, maker) -> None:
    def drawn(mode, warning=""):
        sweep = read([maker.ok(maker.cell(mode=mode), 20_000)])
        figure = times.picture(compare_with_published(sweep, mode), "title", warning)
        return figure, figure.axes[0]

    figure, axes = drawn(Mode.train, "NOT MNIST: a stand-in")
    assert [text.get_text() for text in axes.texts][:4] == ["~15.0", "71.622", "8.983", "70.666"]
    assert figure.get_suptitle() == "title (~ marks an estimated time)\nNOT MNIST: a stand-in"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["mlp\nours: 5 x 60,000 samples"]
    said = "the published times are of the study's own data and epochs)"
    assert axes.get_title(loc="left") == f"Training time (not comparable: {said}"
    assert drawn(Mode.train)[1].get_title(loc="left") == f"Training time ({said}"
    said = "the published times are evaluations of the study's own data)"
    assert drawn(Mode.infer)[1].get_title(loc="left") == f"Testing time ({said}"
    assert times.picture([], "title", "") is None
