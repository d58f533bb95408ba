"""The examples of docs/python.md."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fakes import give_ceilings, make_project

DOCS = Path(__file__).resolve().parents[2] / "docs" / "python.md"
SHORT = " tracking=none window.measure_s=0.05 window.latency_s=0.02 window.warmup_s=0.01 window.block_s=0.005"


@pytest.mark.slow
def test_the_examples_of_the_python_page_run(tmp_path):
    project = make_project(tmp_path)
    give_ceilings(project)
    code = "\n".join(re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL))
    assert "data=random" in code
    code = code.replace("data=random", f"data=random{SHORT}").replace("accelbench.measure(", "show(")
    head = (
        "import accelbench\nquick = accelbench.Window(measure_s=0.05, latency_s=0.02, warmup_s=0.01, block_s=0.005)\n"
        "def show(*args, **named): print(accelbench.measure(*args, window=quick, **named))\n"
    )
    command = [sys.executable, "-c", f"{head}{code}\nprint(page)"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": ok, ") >= 4
    assert "can't tell, 1 and 1 processes" in done.stdout
    assert Path(done.stdout.splitlines()[-1]).exists()
