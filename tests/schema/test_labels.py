import dataclasses

import pytest

from accelbench.schema.cell import Window
from accelbench.schema.labels import labels
from accelbench.schema.vocab import Library
from accelbench.schema.workload import DataSpec, ModelSpec
from fakes import make_cell

MODEL = ModelSpec(name="mlp", args={"units": 128, "dropout": 0.1})


def of_model(**changes):
    return make_cell(model=dataclasses.replace(MODEL, **changes))


OTHERS = {
    "units=256": of_model(args={"units": 256, "dropout": 0.1}),
    "widths=[8,8]": of_model(args={"units": 128, "dropout": 0.1, "widths": [8, 8]}),
    "library=timm": of_model(library=Library.timm, args={}),
    "learning_rate=0.5": of_model(learning_rate=0.5),
    "optimizer=sgd": of_model(optimizer="sgd"),
    "input_shape=[3,8,8]": of_model(input_shape=(3, 8, 8)),
    "num_classes=2": of_model(num_classes=2),
    "data=cifar10": make_cell(model=MODEL, data=DataSpec(name="cifar10")),
    "num_workers=7": make_cell(model=MODEL, data=DataSpec(name="mnist", num_workers=7)),
    "measure_s=9": make_cell(model=MODEL, window=Window(measure_s=9)),
    "breakdown_s=0": make_cell(model=MODEL, breakdown_s=0),
    "epochs=7": make_cell(model=MODEL, epochs=7),
}


@pytest.mark.parametrize("words", OTHERS)
def test_cells_of_one_label_are_told_apart_by_the_settings_in_which_they_differ(words):
    cells = [make_cell(model=MODEL), OTHERS[words]]
    assert cells[0].label == cells[1].label
    found = labels(cells)
    assert len({found[cell.id] for cell in cells}) == 2
    assert words in found[cells[1].id].removeprefix(cells[1].label).split("-")


def test_all_labels_of_a_folder_differ_and_those_that_need_nothing_stay():
    cells = [make_cell(model=MODEL), *OTHERS.values(), make_cell(batch_size=8), make_cell(repeat=1)]
    found = labels(cells)
    assert len(set(found.values())) == len({cell.id for cell in cells})
    assert found[cells[-2].id] == cells[-2].label
    assert labels(cells[-2:]) == {cell.id: cell.label for cell in cells[-2:]}


@pytest.mark.parametrize(
    ("value", "text", "words"),
    [
        (1, "1", ["x=1", 'x="1"']),
        (True, "true", ["x=true", 'x="true"']),
        (None, "null", ["x=null", 'x="null"']),
        ([8, 8], "[8,8]", ["x=[8,8]", 'x="[8,8]"']),
        ("a", '"a"', ["x=a", r'x="\"a\""']),
    ],
)
@pytest.mark.parametrize("library", [Library.accelbench, Library.custom])
def test_a_text_that_reads_like_another_value_has_another_label(value, text, words, library):
    cells = [of_model(library=library, args={"x": each}) for each in (value, text)]
    found = labels(cells)
    assert [found[cell.id].rpartition("-")[2] for cell in cells] == words


def test_labels_differ_though_their_texts_are_the_same_on_one_line():
    cells = [of_model(args={"x": text}) for text in ("a b", "a\nb", "c")]
    first, second, third = labels(cells).values()
    assert first != second
    assert third.endswith("-x=c")
    known = {cells[0].id: "the first"}
    assert labels(cells, known)[cells[0].id] == "the first"


def test_a_known_label_stays_and_a_later_cell_gets_the_difference():
    first, second = make_cell(model=MODEL), OTHERS["units=256"]
    found = labels([first, second], {first.id: first.label})
    assert found == {first.id: first.label, second.id: f"{first.label}-units=256"}


def test_a_long_value_is_its_digest():
    first, second = (of_model(args={"widths": [width] * 40}) for width in (8, 9))
    found = labels([first, second])
    assert found[first.id] != found[second.id]
    assert all(len(label) < 60 for label in found.values())
