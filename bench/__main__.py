"""accelbench measured by itself: `make bench`, or `python -m bench [part ...]`.

Nothing else should run on the machine meanwhile.
"""

import argparse
import importlib

PARTS = ["overhead", "loop", "references", "feeding", "comparing", "keras", "accuracy"]
# Accuracy takes an hour, and TensorFlow shares no process with the others' torch.
DEFAULT = ["overhead", "loop", "references", "feeding", "comparing"]


def main() -> None:
    """Runs the parts named on the command line."""
    # Here, since processes that a part starts import this module, and need none of that.
    from accelbench.lock import hold, measuring_lock

    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", choices=[*PARTS, []], help=", ".join(PARTS))
    for part in parser.parse_args().parts or DEFAULT:
        run = importlib.import_module(f"bench.{part}").main
        print(f"\n== {part}: bench/{part}.py", flush=True)
        if part in (
            "loop",
            "references",
            "feeding",
            "comparing",
        ):  # the others are sweeps, which take the lock themselves
            with hold(measuring_lock(), "another measurement", print):
                run()
        else:
            run()


if __name__ == "__main__":
    main()
