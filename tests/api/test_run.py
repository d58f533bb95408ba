"""`accelbench.run` in a session of its own, as a notebook has it."""

import subprocess
import sys

import pytest

from fakes import give_ceilings, make_project

QUICK = (
    '{"window.measure_s": 0.05, "window.latency_s": 0.02, "window.warmup_s": 0.01, "window.block_s": 0.005, '
    '"model.args.widths": (8,), "tracking": "none", "quiet": True}'
)
# What is typed into the cells of the notebook, one after another.
CELLS = [
    "import os, signal, sys, threading",
    "import accelbench",
    "frameworks = {'torch', 'hydra', 'pandas', 'numpy', 'rich', 'omegaconf'}",
    "print('at import:', frameworks & set(sys.modules))",
    f"quick = {QUICK}",
    "def state(): return (list(sys.argv), os.getcwd(), dict(os.environ), "
    "{each: signal.getsignal(each) for each in signal.valid_signals()})",
    "before = state()",
    "first = accelbench.run('model=mlp mode=infer', batch_size=[8, 16], **quick)",
    "print('first:', [(each.status, each.settings['batch_size'], each.path.exists()) for each in first])",
    "found = []",
    "thread = threading.Thread(target=lambda: found.append("
    "accelbench.run('model=mlp mode=infer batch_size=4', **quick)))",
    "thread.start()",
    "thread.join()",
    "print('second:', [each.status for each in found[0]])",
    "print('as before:', state() == before)",
    "print('in this process:', {'torch', 'pandas'} & set(sys.modules))",
    "class Net: pass",
    "accelbench.run('model=custom', **{'model.target': Net})",
    "accelbench.run('model=nope')",
    "accelbench.run('model=mlp batch_size=8', **{**quick, 'model.args.nope': 1})",
    "accelbench.compare",
    "import accelbench.compare.sureness",
    "print('compare is', type(accelbench.compare).__name__)",
    "print('in dir:', {'run', 'measure', 'read', 'compare', 'UserError'} <= set(dir(accelbench)))",
]
SESSION = """
import code, sys
console = code.InteractiveConsole({"__name__": "__main__"})
for cell in sys.stdin.read().splitlines():
    console.push(cell + "\\n") if cell.startswith(("class", "def")) else console.push(cell)
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    project = make_project(tmp_path_factory.mktemp("project"))
    give_ceilings(project)
    command = [sys.executable, "-c", SESSION]
    return subprocess.run(command, cwd=project, input="\n".join(CELLS), capture_output=True, text=True, timeout=200)


def test_a_notebook_measures_several_times_and_stays_as_it_is(session):
    out = session.stdout
    assert "at import: set()" in out
    assert "first: [('ok', 8, True), ('ok', 16, True)]" in out, session.stderr
    assert "second: ['ok']" in out, session.stderr  # in a thread
    assert "as before: True" in out
    assert "in this process: set()" in out
    assert "compare is function" in out  # also once the folder of that name was imported
    assert "in dir: True" in out


def test_mistakes_have_the_text_of_the_command_line(session):
    assert "accelbench.errors.UserError: model.target: __main__.Net is defined in the session itself" in session.stderr
    assert "model=nope: unknown model. Choose from: autoencoder, cnn" in session.stderr
    assert "UserError: model.args" in session.stderr
