"""`make repro`: `dvc repro report`, one at a time, and at the end what it found and where to look.

The report's own stages are run and no others: a data set that no suite uses is not downloaded.

Exits 0 when all is well, 1 when the report is there but a cell ended unexpectedly, 2 when it could not run:
the message says what mends it.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from hydra import compose, initialize_config_dir

from accelbench.errors import UnknownChoiceError
from accelbench.lifeline import end_with_parent
from accelbench.lock import hold
from accelbench.schema import plan_file
from accelbench.schema.vocab import RETRIED, UNEXPECTED
from accelbench.settings import config, params, suites, to_cell
from accelbench.settings.hydra_errors import user_error_behind


def main() -> int:
    """Runs the pipeline; returns the exit status."""
    end_with_parent()
    try:
        check_params()
        with hold(ROOT / ".accelbench.lock", "`make repro`"):
            # DVC sees no change in a sweep that is to be tried again.
            again = [f"sweep@{suite}" for suite in suites_to_retry()]
            done = (not again or dvc("repro", "--force", "--single-item", *again)) and dvc(
                "repro", *(sys.argv[1:] or ["report"])
            )
            return conclude() if done else 2
    except KeyboardInterrupt:
        print("\nInterrupted. Every finished cell has its record: `make repro` goes on from there.", file=sys.stderr)
        return 130
    except Exception as error:
        mended = user_error_behind(error)
        if mended is None:
            raise
        print(f"error: {mended}", file=sys.stderr)
        return 2


def check_params() -> None:
    """Finds a mistake in params.yaml before anything is run: composes each value of each axis once.

    Raises:
        UserError: it names the setting.
    """
    settings = params.load(ROOT)
    retry = settings.get("retry") or config.Retry.none
    if retry not in list(config.Retry):
        raise UnknownChoiceError("retry", retry, config.Retry)
    profile = suites.chosen_profile(None, settings.get("profile"))
    config.register()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        for suite in settings.get("suites") or {}:
            section = suites.suite_axes(settings, suite)
            suites.exclude_rules(suite, section, profile)
            lines = [
                line.partition("=") for line in suites.axis_overrides(suite, section, profile, given=(), sweep=True)
            ]
            values = {name: words.split(",") for name, _, words in lines}
            for number in range(max(map(len, values.values()))):
                one = [f"{name}={words[number % len(words)]}" for name, words in values.items()]
                to_cell.cell_and_options(compose("config", [f"suite={suite}", *one]))


def dvc(*words: str) -> bool:
    """Runs DVC, which ends when this process does; returns whether it succeeded."""
    command = [sys.executable, "-m", "dvc", *words]
    return subprocess.run(command, cwd=ROOT, preexec_fn=end_with_parent).returncode == 0


def suites_to_retry() -> list[str]:
    """Suites with cells that params.yaml's `retry: failed` wants tried again."""
    settings = params.load(ROOT)
    if settings.get("retry") != config.Retry.failed:
        return []
    folders = [ROOT / "results" / str(suite) for suite in settings.suites]
    return [
        folder.name
        for folder in folders
        if (folder / "plan.json").exists() and any(r.status in RETRIED for r in plan_file.read_planned(folder))
    ]


def conclude() -> int:
    """Says where the results are; 1 if a cell ended as nobody asked for."""
    folders = [ROOT / "results" / str(suite) for suite in params.load(ROOT).suites]
    bad = [found for folder in folders for found in plan_file.read_planned(folder) if found.status in UNEXPECTED]
    for found in bad:
        print(f"{found.cell.suite}: {found.cell.label}: {found.status}: {found.reason}", file=sys.stderr)
    print(f"\nReport:  {ROOT / 'report' / 'index.html'}\nMLflow:  make ui")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
