from collections import Counter
from xml.etree import ElementTree

import pytest

from accelbench.schema.vocab import Protocol, Status
from accelbench.sinks import run_picture
from report.conftest import Maker
from report.pictures.samples import working


@pytest.fixture
def maker():
    return Maker()


def drawn(record):
    """The texts of a run's picture, and how many of each shape it has."""
    root = ElementTree.fromstring(run_picture.draw(record))
    tags = Counter(element.tag.rpartition("}")[2] for element in root.iter())
    return [element.text for element in root.iter() if element.tag.endswith("}text")], tags


def test_a_runs_picture_shows_its_speed_and_its_steps(maker):
    made = working(maker, "cnn")
    texts, tags = drawn(made)
    assert texts[0].startswith("cnn-cpu-fp32-b128-infer on ")
    assert any(text.startswith("samples/s of each block: median ") for text in texts)
    assert any(text.startswith("ms of each step that was waited for: p50 ") for text in texts)
    assert tags["circle"] == len(made.measurement.blocks) + len(made.measurement.latency_s[::2])  # 700 are too many


def test_the_first_epoch_is_not_drawn_and_not_counted(maker):
    made = maker.ok(maker.cell(protocol=Protocol.fit), 500.0)
    num = len(made.measurement.epochs)
    texts, tags = drawn(made)
    assert num > 1
    assert tags["circle"] == num - 1
    assert {"epoch 2", f"epoch {num}"} <= set(texts)


def test_a_name_with_markup_is_text(maker):
    texts, tags = drawn(maker.ok(maker.cell("<script>a&b"), 500.0))
    assert texts[0].startswith("<script>a&b-cpu")
    assert tags["script"] == 0


def test_a_run_without_true_samples_has_no_picture(maker):
    assert run_picture.draw(maker.record(maker.cell(), Status.failed)) is None
