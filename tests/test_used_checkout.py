import os
import subprocess
import sys

import checkouts

# What reads files of the checkout. tests/pipelines/test_pipeline.py also runs in a used one.
READERS = ("pipelines/test_repro.py", "settings/test_params.py", "test_docs_claims.py", "test_project.py")
FAST = "not slow and not faults and not cluster and not gpu and not tpu"


def test_tests_depend_on_nothing_that_the_checkout_holds(tmp_path):
    root = checkouts.used(tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", FAST]
    command += [f"tests/{name}" for name in READERS]
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
