"""`accelbench.run` in a session of its own, as a notebook has it, and the examples of docs/python.md."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.core.singleton import Singleton
from omegaconf import OmegaConf

import accelbench
from accelbench.api.run import words_of
from accelbench.errors import UserError
from accelbench.schema.cell import Precision
from accelbench.settings.compose import cells_of, compose

DOCS = Path(__file__).resolve().parents[2] / "docs" / "python.md"
WINDOW = {"measure_s": 0.05, "latency_s": 0.02, "warmup_s": 0.01, "block_s": 0.005}
QUICK = {f"window.{name}": value for name, value in WINDOW.items()}
QUICK |= {"model.args.widths": (8,), "tracking": "none", "quiet": True}
# What is typed into the cells of the notebook, one after another.
CELLS = f"""\
import os, signal, sys, threading
import accelbench
print('at import:', {{'torch', 'hydra', 'pandas', 'numpy', 'rich', 'omegaconf'}} & set(sys.modules))
def signals(): return {{each: signal.getsignal(each) for each in signal.valid_signals()}}
def state(): return (list(sys.argv), os.getcwd(), dict(os.environ), signals())
before, found = state(), []
def run(sizes, **more): return accelbench.run('model=mlp mode=infer', batch_size=sizes, **{QUICK}, **more)
thread = threading.Thread(target=lambda: found.append(run([8, 16])))
thread.start()
thread.join()
print('first:', [(each.status, each.settings['batch_size'], each.path.exists()) for each in found[0]])
again = run([8, 4], out=found[0].folder)
print('second:', [(each.status, each.settings['batch_size'], each.path == found[0][0].path) for each in again])
print('as before:', state() == before)
print('in this process:', {{'torch', 'pandas'}} & set(sys.modules))
class Net: pass
accelbench.run('model=custom mode=infer', **{{'model.target': Net}})
accelbench.run('model=nope')
"""
SESSION = """
import code, sys
console = code.InteractiveConsole({"__name__": "__main__"})
for cell in sys.stdin.read().splitlines():
    console.push(cell + "\\n") if cell.startswith(("class", "def")) else console.push(cell)
"""


@pytest.fixture
def python(project):
    """Runs a script in a project."""
    options = {"capture_output": True, "text": True, "timeout": 200}
    return lambda code, **more: subprocess.run([sys.executable, "-c", code], **options, **more)


def test_a_notebook_measures_several_times_and_stays_as_it_is(python):
    session = python(SESSION, input=CELLS)
    for line in (
        "at import: set()",
        "first: [('ok', 8, True), ('ok', 16, True)]",  # in a thread
        "second: [('ok', 8, True), ('ok', 4, False)]",  # one from its record, the other measured in the main thread
        "as before: True",
        "in this process: set()",
    ):
        assert line in session.stdout, session.stderr
    # Mistakes have the text of the command line.
    missing = "model.target=__main__.Net: there is no package or module __main__"
    assert f"accelbench.errors.UserError: {missing}" in session.stderr
    assert "model=nope: unknown model. Choose from: " in session.stderr


@pytest.mark.slow
def test_the_examples_of_the_python_page_run(python):
    code = "\n".join(re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL))
    settings = " ".join(f"window.{name}={value}" for name, value in WINDOW.items())
    code = code.replace("data=random", f"data=random tracking=none {settings}").replace("accelbench.measure(", "show(")
    head = f"import accelbench\nquick = accelbench.Window(**{WINDOW})\n"
    head += "def show(*args, **named): print(accelbench.measure(*args, window=quick, **named))\n"
    done = python(f"{head}{code}\nprint(page)")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": ok, ") >= 4
    assert "can't tell, 1 and 1 processes" in done.stdout
    assert Path(done.stdout.splitlines()[-1]).exists()


def test_a_program_that_uses_hydra_keeps_its_state_and_its_resolvers(here):
    """Even if composing fails: `${oc.env:...}` of the caller's stays the caller's."""

    def globals_of_hydra():
        resolvers = set(Singleton.get_state()["omegaconf_resolvers"])
        return resolvers, sorted(ConfigStore.instance().repo), HydraConfig.initialized()

    state = Singleton.get_state()
    try:
        OmegaConf.register_new_resolver("oc.env", lambda name: f"my {name}", replace=True)
        ConfigStore.instance().store("mine", {"a": 1})
        before = globals_of_hydra()
        with pytest.raises(UserError, match="model=nope: unknown model"):
            accelbench.run("model=nope", quiet=True)
        assert OmegaConf.create({"a": "${oc.env:HOME}"}).a == "my HOME"
        assert globals_of_hydra() == before
    finally:
        Singleton.set_state(state)


@pytest.mark.parametrize(
    ("settings", "values", "words"),
    [
        ("model=cnn mode=infer", {"batch_size": [32, 128]}, ["-m", "model=cnn", "mode=infer", "batch_size=32,128"]),
        (["model=cnn"], {"verbose": True, "threads": None}, ["model=cnn", "verbose=true", "threads=null"]),
        ("-m batch_size=1,2", {"precision": [Precision.fp32]}, ["-m", "batch_size=1,2", "precision=fp32"]),
        ("", {"model.args": {"width": 8}}, ["model.args={width:8}"]),
        ("'out=runs/a b'", {"model.target": Path}, ["out=runs/a b", "model.target=pathlib.Path"]),
        ("", {"out": Path("runs/a b"), "device": torch.device("cuda")}, ["out=runs/a b", "device=cuda"]),
    ],
)
def test_settings_become_the_words_of_the_command_line(settings, values, words):
    assert words_of(settings, values) == words


@pytest.mark.parametrize(
    ("settings", "size", "message"),
    [
        (torch.nn.Flatten(), 8, "run: expects words such as 'model=cnn', not a Flatten: use measure for a network"),
        ("--batch-size 8", 8, "--batch-size: is a flag of the command line: use settings, such as batch_size=32"),
        ("model=cnn 'out=x", 8, "not readable as words (No closing quotation)"),
        ("", (8, 16), "batch_size: Value '[8, 16]' of type"),
    ],
)
def test_a_mistake_names_the_words_to_type(settings, size, message, here):
    with pytest.raises(UserError, match=re.escape(message)):
        accelbench.run(settings, batch_size=size)


def test_hydra_reads_odd_texts_as_they_are(project):
    for text in ("it's, {odd}", "null", "3", "x=y z", 'say "hi"', "ends\\"):
        words = words_of("model=custom model.target=nets.Net", {"model.args.name": text, "model.args.widths": (4, 2)})
        (cell,) = cells_of(compose(words))[0]
        assert (cell.model.args["name"], cell.model.args["widths"]) == (text, [4, 2])
