from accelbench.schema.measurement import Block
from five_studies import sections
from report.conftest import inferring


def test_a_number_with_warnings_is_marked_on_the_picture_and_so_is_what_is_computed_from_it(read, maker):
    records = []
    for device, rate, warnings in (("cpu", 10, ["the loader waited"]), ("gpu", 50, [])):
        steady = {"blocks": [Block(num_steps=10, num_samples=160, seconds=160 / rate)] * 7, "threads": 4}
        steady["latency_s"] = [16 / rate] * 100
        cell = inferring(maker, "resnet18", device).cell
        records.append(maker.ok(cell, rate, data=None, warnings=warnings, **steady))
    drawn = {kind: figure for kind, _, figure in sections.of_suite(read(records, study="000"), "").pictures}
    marks = {kind: [text.get_text() for axes in figure.axes for text in axes.texts] for kind, figure in drawn.items()}
    assert (marks["speedups"], marks["families"]) == (["5.00 !"], ["10.0 !", "50.0"])
