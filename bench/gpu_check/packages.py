"""The packages that accelbench needs besides torch, Lightning and their dependencies: `make gpu-check-pack`.

`python -m bench.gpu_check.packages` downloads their wheels to gpu-check-wheels/, in the versions of requirements.lock.
From this folder the check installs missing packages into a temporary folder. It needs no network.
"""

import importlib.util
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "gpu-check-wheels"
PYTHONS = ("3.11", "3.12", "3.13")
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (17, 24, 28)] + ["manylinux2014_x86_64"]
# Distribution -> its module. The check can't start without the first ones. The others are for the tests and for
# accelbench's command line.
NEEDED = {"msgspec": "msgspec", "nvidia-ml-py": "pynvml", "psutil": "psutil"}
ONLY_AS_SOURCE = "antlr4-python3-runtime"
USEFUL = {"pytest-timeout": "pytest_timeout", "platformdirs": "platformdirs", "hydra-core": "hydra"}
USEFUL |= {"omegaconf": "omegaconf", ONLY_AS_SOURCE: "antlr4", "fastjsonschema": "fastjsonschema"}
USEFUL |= {"rich": "rich", "markdown-it-py": "markdown_it", "mdurl": "mdurl", "pygments": "pygments"}
MAX_BYTES = 60 << 20


def missing(modules: dict[str, str]) -> list[str]:
    """The distributions whose modules can't be imported here."""
    return [name for name, module in modules.items() if importlib.util.find_spec(module) is None]


def install(names: list[str], target: Path) -> str | None:
    """Installs packages from the folder of wheels into `target`; returns the last line of the error, if any."""
    if not FOLDER.is_dir():
        return f"there is no {FOLDER.name}/: run `make gpu-check-pack` where there is a network, and copy it here"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--find-links", FOLDER]
    command += ["--disable-pip-version-check", "--target", target]
    errors = []
    for name in names:  # one at a time: if a wheel is missing, the others are still installed
        ran = subprocess.run([*map(str, command), name], capture_output=True, text=True, check=False)
        if ran.returncode:
            errors.append(f"{name}: {(ran.stderr.strip().splitlines() or ['pip failed'])[-1]}")
    return "; ".join(errors) or None


def locked(names: list[str], lock: str) -> str:
    """The lines of a lock file for these distributions, with their hashes."""
    blocks = re.split(r"\n(?=[\w-]+==)", lock)
    found = {block.partition("==")[0]: re.sub(r"\n +#.*", "", block) for block in blocks if "==" in block}
    return "\n".join(found[name] for name in names) + "\n"


def main() -> int:
    """Downloads the wheels; returns the exit status."""
    lock = (ROOT / "requirements.lock").read_text()
    names = [*NEEDED, *USEFUL]
    FOLDER.mkdir(exist_ok=True)
    platforms = [word for name in PLATFORMS for word in ("--platform", name)]
    with tempfile.TemporaryDirectory() as folder:
        source, others = Path(folder, "source.txt"), Path(folder, "others.txt")
        source.write_text(locked([ONLY_AS_SOURCE], lock))
        others.write_text(locked([name for name in names if name != ONLY_AS_SOURCE], lock))
        runs = [["wheel", "--wheel-dir", FOLDER, "-r", source]]
        for python in PYTHONS:
            words = ["--dest", FOLDER, "--only-binary=:all:", "--python-version", python, *platforms]
            runs.append(["download", *words, "-r", others])
        for words in runs:
            command = [sys.executable, "-m", "pip", *words, "--quiet", "--disable-pip-version-check"]
            if status := subprocess.run([*command, "--no-deps", "--require-hashes"], check=False).returncode:
                return status
    num_bytes = sum(path.stat().st_size for path in FOLDER.iterdir())
    print(f"{FOLDER.name}/: {len(list(FOLDER.iterdir()))} wheels, {num_bytes / 1e6:.1f} MB")
    return int(num_bytes > MAX_BYTES)


if __name__ == "__main__":
    sys.exit(main())
