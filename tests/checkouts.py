"""Copies of the checkout: for tests that run its main job, or other tests, in one."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What the main job reads.
JOB = (".dvc", ".dvcignore", ".gitignore", "conf", "dvc.yaml", "pipelines", "pyproject.toml", "src", "studies")
# What commands and the main job leave, as files that nothing can read.
LEFT = ("confirmed/a.json", "data/mnist/manifest.json", "mlartifacts/a.json", "report/index.html", "retries/a.json")
LEFT += ("results/mnist_networks/plan.json", "runs/adhoc/plan.json", "ceilings.json", "dvc.lock", "environment.json")
LEFT += ("mlflow.db",)


def git(folder, *words):
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def copy(root, *parts, source=ROOT):
    """Copies these parts of a checkout, by default all, and the bytecode of its package, to `root`; returns `root`."""
    listed = git(source, "ls-files", "-z", "--cached", "--others", "--exclude-standard", *parts).split("\0")
    for path in [*(source / name for name in listed if name), *source.glob("src/**/*.pyc")]:
        target = root / path.relative_to(source)
        if path.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)  # with its time, by which Python knows its bytecode
    return root


def used(root):
    """A copy of the checkout in `root` that was used, and whose dvc.lock is committed; returns `root`."""
    copy(root)
    for name in LEFT:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("left by another run")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Measure")
    return root
