from pathlib import Path

import pytest

from accelbench.api.run import words_of
from accelbench.schema.vocab import Precision
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


def test_hydra_reads_odd_texts_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(make_project(tmp_path))
    monkeypatch.setattr("sys.argv", ["x"])
    for text in ("it's, {odd}", "null", "3", "x=y z", 'say "hi"', "ends\\"):
        words = words_of("model=custom model.target=nets.Net", {"model.args.name": text, "model.args.widths": (4, 2)})
        (cell,) = cells_of(compose(words))[0]
        assert (cell.model.args["name"], cell.model.args["widths"]) == (text, [4, 2])
