import dataclasses

import pytest

from accelbench.report import read
from accelbench.report.pictures import study_summary
from report.pictures.test_studies import inferring


@pytest.fixture
def scaled(tmp_path, maker):
    records = [
        inferring(maker, "scaling_cnn_small", device, rate=rate * gain, batch_size=batch)
        for device, gain in (("cpu", 1), ("gpu", 5))
        for batch, rate in ((1, 100), (8, 290), (16, 300))
    ]
    return read.read(maker.suite(tmp_path, records, study="003"))


def test_the_summary_has_devices_best_batches_and_conclusions_on_one_page(scaled):
    figure = study_summary.summary_page(scaled, "title", "")
    figure.draw_without_rendering()
    devices, best, told = figure.axes
    shown = [[cell.get_text().get_text() for cell in axes.tables[0].get_celld().values()] for axes in (devices, best)]
    assert {"device", "cpu", "gpu"} <= set(shown[0])
    assert {"best batch", "16", "1,500"} <= set(shown[1])
    assert told.texts[0].get_text().count("•") == 2
    for axes in (devices, best):
        for cell in axes.tables[0].get_celld().values():  # nothing is cut
            assert cell.get_text().get_window_extent().width <= cell.get_window_extent().width
    assert study_summary.summary_page(dataclasses.replace(scaled, cells=[]), "title", "") is None
