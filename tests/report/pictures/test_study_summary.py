import dataclasses

from accelbench.report.pictures import study_summary


def test_the_summary_has_devices_best_batches_and_conclusions_on_one_page(scaled):
    figure = study_summary.summary_page(scaled, "title", "")
    figure.draw_without_rendering()
    devices, best, compared, told = figure.axes
    tables = (devices, best, compared)
    shown = [[cell.get_text().get_text() for cell in axes.tables[0].get_celld().values()] for axes in tables]
    assert {"device", "cpu", "gpu"} <= set(shown[0])
    assert {"best batch", "16", "1,500"} <= set(shown[1])
    assert {"speed-up (x)", "5.00", "4.95", "6.97"} <= set(shown[2])
    assert told.texts[0].get_text().count("•") == 3
    for axes in tables:
        for cell in axes.tables[0].get_celld().values():  # nothing is cut
            assert cell.get_text().get_window_extent().width <= cell.get_window_extent().width
    assert study_summary.summary_page(dataclasses.replace(scaled, cells=[]), "title", "") is None
