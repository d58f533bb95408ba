"""Code in processes of its own, since importing torch_xla replaces parts of torch.nn.

They are forked from one that has imported it and Lightning, which takes seconds.
"""

import json
import subprocess
import sys
from typing import Self

# Answers each line of code and variables with what it printed, or with the traceback of its error.
FORKING = """
import contextlib, io, json, os, sys, traceback
import torch_xla, accelbench.engines.lightning.backends

def answer(code, variables):
    os.environ.update(variables)
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            exec(code, {})
        return output.getvalue().splitlines()
    except BaseException:
        return traceback.format_exc()

for line in sys.stdin:
    if (pid := os.fork()) == 0:
        print(json.dumps(answer(*json.loads(line))), flush=True)
        os._exit(0)
    if (status := os.waitpid(pid, 0)[1]) != 0:
        print(json.dumps(f"ended with status {status}"), flush=True)
"""


class Forking:
    """Forks a process for each piece of code, from one that has made the imports."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-c", FORKING]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()

    def printed(self, code: str, **variables: str) -> list[str]:
        """What the code prints, a value a line, on PJRT's CPU unless `variables` say otherwise."""
        self.process.stdin.write(json.dumps([code, {"PJRT_DEVICE": "CPU", **variables}]) + "\n")
        self.process.stdin.flush()
        found = json.loads(self.process.stdout.readline())
        assert isinstance(found, list), found
        return found
