from accelbench.schema.measurement import Block
from five_studies import sections
from report.conftest import inferring


def test_a_number_with_warnings_is_marked_on_the_picture_and_so_is_what_is_computed_from_it(read, maker):
    records = []
    for device, rate, warnings in (("cpu", 10, ["the loader waited"]), ("gpu", 50, [])):
        steady = {"blocks": [Block(num_steps=10, num_samples=160, seconds=160 / rate)] * 7, "threads": 4}
        steady["latency_s"] = [16 / rate] * 100
        for name in ("resnet18", "vgg11", "xception", "nasnetalarge"):
            for batch in (16, 32):
                cell = inferring(maker, name, device, batch_size=batch).cell
                records.append(maker.ok(cell, rate, data=None, warnings=warnings, **steady))
    added = [sections.of_suite(read(records, study=study), "") for study in ("000", None)]
    assert [bool(each.main and each.sentence and each.caveats) for each in added] == [True, False]
    drawn = {kind: figure for kind, _, figure in added[0].pictures}
    assert set(drawn) == {"families", "speedups"}  # of all else, there are too few numbers
    for figure in drawn.values():
        names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
        assert names == ["resnet18", "vgg11", "nasnetalarge", "xception"]  # families first
        assert [len(axes.texts) for axes in figure.axes] == [4, 4]
