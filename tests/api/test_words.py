from pathlib import Path

import pytest
import torch

import accelbench
from accelbench import UserError
from accelbench.api.run import words_of
from accelbench.schema.cell import Precision
from accelbench.settings.compose import cells_of, compose
from fakes import make_project


@pytest.mark.parametrize(
    ("settings", "values", "words"),
    [
        ("model=cnn mode=infer", {"batch_size": [32, 128]}, ["-m", "model=cnn", "mode=infer", "batch_size=32,128"]),
        (["model=cnn"], {"verbose": True, "threads": None}, ["model=cnn", "verbose=true", "threads=null"]),
        ("-m batch_size=1,2", {"precision": [Precision.fp32]}, ["-m", "batch_size=1,2", "precision=fp32"]),
        ("", {"model.args": {"width": 8}}, ["model.args={width:8}"]),
        ("", {"out": Path("runs/a b")}, ["out=runs/a b"]),
        ("'out=runs/a b'", {"model.target": Path}, ["out=runs/a b", "model.target=pathlib.Path"]),
    ],
)
def test_settings_become_the_words_of_the_command_line(settings, values, words):
    assert words_of(settings, values) == words


@pytest.mark.parametrize(
    ("settings", "values", "message"),
    [
        (
            torch.nn.Flatten(),
            {},
            "run: expects words such as 'model=cnn', not a Flatten: use measure for a network",
        ),
        ("--batch-size 8", {}, "--batch-size: is a flag of the command line: use settings, such as batch_size=32"),
        ("model=cnn 'out=x", {}, "not readable as words (No closing quotation)"),
        ("", {"batch_size": (8, 16)}, "batch_size: Value '[8, 16]' of type"),
    ],
)
def test_a_mistake_names_the_words_to_type(settings, values, message, here):
    with pytest.raises(UserError) as raised:
        accelbench.run(settings, **values)
    assert message in str(raised.value)


def test_a_device_of_torch_is_the_word_for_it():
    assert words_of("", {"device": torch.device("cuda")}) == ["device=cuda"]


def test_hydra_reads_odd_texts_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(make_project(tmp_path))
    monkeypatch.setattr("sys.argv", ["x"])
    for text in ("it's, {odd}", "null", "3", "x=y z", 'say "hi"', "ends\\"):
        words = words_of("model=custom model.target=nets.Net", {"model.args.name": text, "model.args.widths": (4, 2)})
        (cell,) = cells_of(compose(words))[0]
        assert (cell.model.args["name"], cell.model.args["widths"]) == (text, [4, 2])
