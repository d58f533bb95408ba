"""`accelbench.run` in a session of its own, as a notebook has it."""

import subprocess
import sys

import pytest
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.core.singleton import Singleton
from omegaconf import OmegaConf

import accelbench
from accelbench.errors import UserError
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
    "found = []",
    "thread = threading.Thread(target=lambda: found.append("
    "accelbench.run('model=mlp mode=infer', batch_size=[8, 16], **quick)))",
    "thread.start()",
    "thread.join()",
    "print('first:', [(each.status, each.settings['batch_size'], each.path.exists()) for each in found[0]])",
    "again = accelbench.run('model=mlp mode=infer', batch_size=[8, 4], out=found[0].folder, **quick)",
    "print('second:', [(each.status, each.settings['batch_size'], each.path == found[0][0].path) for each in again])",
    "print('as before:', state() == before)",
    "print('in this process:', {'torch', 'pandas'} & set(sys.modules))",
    "class Net: pass",
    "accelbench.run('model=custom mode=infer', **{'model.target': Net})",
    "accelbench.run('model=nope')",
]
SESSION = """
import code, sys
console = code.InteractiveConsole({"__name__": "__main__"})
for cell in sys.stdin.read().splitlines():
    console.push(cell + "\\n") if cell.startswith(("class", "def")) else console.push(cell)
"""


def test_a_notebook_measures_several_times_and_stays_as_it_is(tmp_path):
    project = make_project(tmp_path)
    give_ceilings(project)
    command, typed = [sys.executable, "-c", SESSION], "\n".join(CELLS)
    session = subprocess.run(command, cwd=project, input=typed, capture_output=True, text=True, timeout=200)
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


def test_a_program_that_uses_hydra_keeps_its_state_and_its_resolvers(tmp_path, monkeypatch):
    """Even if composing fails: `${oc.env:...}` of the caller's stays the caller's."""
    monkeypatch.chdir(tmp_path)
    state = Singleton.get_state()
    try:
        OmegaConf.register_new_resolver("oc.env", lambda name: f"my {name}", replace=True)
        ConfigStore.instance().store("mine", {"a": 1})
        before = set(Singleton.get_state()["omegaconf_resolvers"]), sorted(ConfigStore.instance().repo)
        with pytest.raises(UserError, match="model=nope: unknown model"):
            accelbench.run("model=nope", quiet=True)
        assert OmegaConf.create({"a": "${oc.env:HOME}"}).a == "my HOME"
        assert (set(Singleton.get_state()["omegaconf_resolvers"]), sorted(ConfigStore.instance().repo)) == before
        assert not HydraConfig.initialized()
    finally:
        Singleton.set_state(state)
