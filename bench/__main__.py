"""accelbench measured by itself: `make bench`, or `python -m bench [part ...]`.

Nothing else should run on the machine meanwhile.
"""

import argparse
import importlib
import subprocess
import sys
from contextlib import nullcontext

DEFAULT = ["waiting", "overhead", "loop", "xla", "comparing", "report"]
# Parts that do not run by default. scale takes ten minutes and ten gigabytes of disk. custom, engines and peer take
# half an hour each, and serving takes an hour. keras can't share a process with torch.
OTHERS = ["scale", "custom", "engines", "keras", "serving", "peer"]
# Parts that are another function than `main` of a module.
BESIDE = {"xla": "loop", "comparing": "scale", "report": "scale"}
# All other parts take the machine's lock themselves, or run sweeps that take it.
LOCKED = ("loop", "xla", "comparing", "report", "scale")


def main() -> None:
    """Runs the parts named on the command line."""
    # Not at the top: the processes of a part import this module, too.
    from accelbench.lock import hold_measuring
    from accelbench.project import workplace

    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    known = [*DEFAULT, *OTHERS]
    parser.add_argument("parts", nargs="*", metavar="part", choices=[*known, []], help=", ".join(known))
    parts = parser.parse_args().parts or DEFAULT
    root = workplace().root
    for name in ("mnist", "random"):
        if not (root / "data" / name).exists():
            subprocess.run([sys.executable, "pipelines/stage.py", "prepare_data", name], cwd=root, check=True)
    for part in parts:
        module = BESIDE.get(part, part)
        run = getattr(importlib.import_module(f"bench.{module}"), part if part in BESIDE else "main")
        print(f"\n== {part}: bench/{module}.py", flush=True)
        with hold_measuring(print) if part in LOCKED else nullcontext():
            run()


if __name__ == "__main__":
    main()
