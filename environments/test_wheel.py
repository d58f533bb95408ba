"""`make test-wheel`: tests the wheel as a user installs it, with the newest packages instead of the lock's.

It builds the wheel and compares its files with the package's files. It installs the wheel with its core dependencies
into an environment in a temporary folder. There it runs the tests of the PyTorch engine, and two cells in an empty
folder. One of the cells reads weights from a file that the newest torch has written.
"""

import os
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UV = Path(sys.executable).with_name("uv")
FOLDERS = ("src/accelbench", "src/hydra_plugins", "conf")  # that the wheel has
FOR_TESTS = ("pytest", "pytest-timeout")
FAST = "not slow and not faults and not cluster and not gpu and not tpu"
SAVED = """import torchvision
from safetensors.torch import save_file
save_file(torchvision.models.resnet18().state_dict(), 'mine.safetensors')"""
CELL = ("model=torchvision", "model.name=resnet18", "mode=infer", "batch_size=1", "window.measure_s=0.5")


def main() -> int:
    """Builds, installs and tests the wheel. Returns 1 if something is wrong, else 0."""
    with tempfile.TemporaryDirectory(prefix="accelbench-wheel-") as name:
        folder = Path(name)
        run(UV, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT)
        (wheel,) = folder.glob("*.whl")
        if missing := differing_files(wheel):
            print(f"the wheel and the package differ in: {', '.join(sorted(missing))}", file=sys.stderr)
            return 1
        started = time.monotonic()
        python = folder / "venv" / "bin" / "python"
        run(UV, "--no-config", "venv", "--quiet", "--python", sys.executable, folder / "venv")
        run(UV, "--no-config", "pip", "install", "--quiet", "--python", python, wheel)
        print(f"installed in {time.monotonic() - started:.0f} s")
        run(UV, "--no-config", "pip", "install", "--quiet", "--python", python, *FOR_TESTS)
        empty = folder / "empty"
        environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
        environment["ACCELBENCH_BUSY"] = "allowed"  # as the tests have it
        environment.pop("PYTHONPATH", None)
        empty.mkdir()
        started = time.monotonic()
        run(python.with_name("accelbench"), *CELL, cwd=empty, env=environment)
        print(f"first answer in {time.monotonic() - started:.0f} s")
        run(python, "-c", SAVED, cwd=folder)
        run(python.with_name("accelbench"), *CELL, "model.weights=../mine.safetensors", cwd=empty, env=environment)
        for command in ("doctor", "best", "report", "sync"):
            run(python.with_name("accelbench"), command, cwd=empty, env=environment)
        if left := {path.name for path in empty.iterdir()} - {"runs", "mlflow.db", "mlflow.lock", "mlartifacts"}:
            print(f"left in the folder: {', '.join(sorted(left))}", file=sys.stderr)
            return 1
        words = ["-c", ROOT / "pyproject.toml", "--rootdir", ROOT, "-p", "no:cacheprovider", "-q", "-m", FAST]
        run(python, "-m", "pytest", *words, ROOT / "tests/engines/pytorch", cwd=empty, env=environment)
    return 0


def differing_files(wheel: Path) -> set[str]:
    """The files that only the wheel has, or only the package (`FOLDERS`)."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *FOLDERS]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    sources = {"src": "", "conf": "accelbench/conf/"}
    wanted = {sources[name.partition("/")[0]] + name.partition("/")[2] for name in listed.stdout.splitlines()}
    with zipfile.ZipFile(wheel) as packed:
        return wanted ^ {name for name in packed.namelist() if ".dist-info/" not in name}


def run(*words: object, **settings: object) -> None:
    """Runs a command; ends this program with its exit status if it fails."""
    status = subprocess.run([str(word) for word in words], **settings).returncode
    if status:
        print(f"failed: {' '.join(map(str, words))}", file=sys.stderr)
        raise SystemExit(status)


if __name__ == "__main__":
    sys.exit(main())
