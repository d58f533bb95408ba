from pathlib import Path

import pytest

from accelbench.api.run import words_of
from accelbench.errors import UserError
from accelbench.schema.vocab import Precision
from accelbench.settings.compose import cells_of, compose
from fakes import make_project


@pytest.mark.parametrize(
    ("settings", "values", "words"),
    [
        ("model=cnn mode=infer", {"batch_size": [32, 128]}, ["-m", "model=cnn", "mode=infer", "batch_size=32,128"]),
        (["model=cnn"], {"verbose": True, "threads": None}, ["model=cnn", "verbose=true", "threads=null"]),
        ("-m batch_size=1,2", {"precision": [Precision.fp32]}, ["-m", "batch_size=1,2", "precision=fp32"]),
        ("", {"model.input_shape": (3, 32, 32)}, ["model.input_shape=[3,32,32]"]),
        ("", {"model.args": {"width": 8}}, ["model.args={width:8}"]),
        ("", {"model.args.name": "it's, {odd}"}, ["model.args.name='it\\'s, {odd}'"]),
        ("", {"out": Path("runs/a b")}, ["out=runs/a b"]),
        ("", {"model.target": Path}, ["model.target=pathlib.Path"]),
        ("'out=runs/a b'", {}, ["out=runs/a b"]),
    ],
)
def test_settings_become_the_words_of_the_command_line(settings, values, words):
    assert words_of(settings, values) == words


@pytest.mark.parametrize(
    ("settings", "values", "message"),
    [
        ("--cfg job", {}, "--cfg: a flag of the command line"),
        ("'", {}, "not readable as words"),
        ("", {"batch_size": []}, "an axis needs at least one value"),
        ("", {"batch_size": object()}, "a object is no setting"),
    ],
)
def test_a_mistake_names_the_setting(settings, values, message):
    with pytest.raises(UserError, match=message):
        words_of(settings, values)


def test_hydra_reads_odd_texts_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(make_project(tmp_path))
    monkeypatch.setattr("sys.argv", ["x"])
    for name in ("HYDRA_FULL_ERROR", "ACCELBENCH_SCRATCH"):
        monkeypatch.setenv(name, "")
    texts = ["it's, {odd}", "null", "3", "x=y z", 'say "hi"', "ends\\"]
    for text in texts:
        words = words_of("model=custom model.target=nets.Net", {"model.args.name": text, "model.args.widths": (4, 2)})
        (cell,) = cells_of(compose(words))[0]
        assert (cell.model.args["name"], cell.model.args["widths"]) == (text, [4, 2])
