"""accelbench measured by itself: `make bench`, or `python -m bench [part ...]`.

Nothing else should run on the machine meanwhile.
"""

import argparse
import importlib
import subprocess
import sys

DEFAULT = ["waiting", "overhead", "loop", "xla", "comparing", "report"]
IN_SCALE = ("comparing", "report")  # functions of bench/scale.py
# Not run by default: scale takes ten minutes and ten gigabytes of disk, custom and engines half an hour each, searching
# ten minutes and accuracy an hour; peer installs another tool, and keras can't share a process with torch.
# They take the lock themselves, or run sweeps, which do.
LOCKING = ("waiting", "overhead", "custom", "engines", "searching", "keras", "accuracy", "peer")
PARTS = [*DEFAULT, "scale", "custom", "engines", "searching", "keras", "accuracy", "peer"]


def main() -> None:
    """Runs the parts named on the command line."""
    # Imported here: processes that a part starts import this module too.
    from accelbench.lock import hold_measuring
    from accelbench.project import workplace

    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", choices=[*PARTS, []], help=", ".join(PARTS))
    parts = parser.parse_args().parts or DEFAULT
    for name in ("mnist", "random"):
        if not (workplace().root / "data" / name).exists():
            subprocess.run(
                [sys.executable, "pipelines/stage.py", "prepare_data", name], cwd=workplace().root, check=True
            )
    for part in parts:
        module = "scale" if part in IN_SCALE else part
        run = getattr(importlib.import_module(f"bench.{module}"), part if part in IN_SCALE else "main")
        print(f"\n== {part}: bench/{module}.py", flush=True)
        if part not in LOCKING:
            with hold_measuring(print):
                run()
        else:
            run()


if __name__ == "__main__":
    main()
