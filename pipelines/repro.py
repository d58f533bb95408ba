"""`make repro`: runs `dvc repro report` under a lock, then prints the failed cells and where the results are.

Only the stages that the report depends on are run: a data set that no suite uses is not downloaded.

Exit status: 0 success; 1 the report was built, but a cell failed unexpectedly; 2 the pipeline could not run, and the
message says how to fix it.
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
from accelbench.project import PLAN
from accelbench.schema import plan_file
from accelbench.schema.text import clean
from accelbench.schema.vocab import RETRIED, UNEXPECTED
from accelbench.settings import config, params, suites, to_cell
from accelbench.settings.hydra_errors import user_error_behind


def main() -> int:
    """Runs the pipeline; returns the exit status."""
    end_with_parent()
    try:
        check_params()
        with hold(ROOT / ".accelbench.lock", "`make repro`"):
            # `retry: failed` needs --force, because DVC sees no change in those sweeps.
            again = [f"sweep@{suite}" for suite in suites_to_retry()]
            done = (not again or dvc("repro", "--force", "--single-item", *again)) and dvc(
                "repro", *(sys.argv[1:] or ["report"])
            )
            return conclude() if done else 2
    except KeyboardInterrupt:
        print("\nInterrupted. Every finished cell has its record: `make repro` continues from there.", file=sys.stderr)
        return 130
    except Exception as error:
        mended = user_error_behind(error)
        if mended is None:
            raise
        print(f"error: {clean(str(mended))}", file=sys.stderr)
        return 2


def check_params() -> None:
    """Checks params.yaml before anything is run, by composing each value of each axis once.

    Raises:
        UserError: a setting is wrong; the message names it.
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
                chosen = [f"{name}={words[number % len(words)]}" for name, words in values.items()]
                to_cell.cell_and_options(config.typed(compose("config", [f"suite={suite}", *chosen])))


def dvc(*words: str) -> bool:
    """Runs DVC, which ends when this process ends; returns whether it succeeded."""
    command = [sys.executable, "-m", "dvc", *words]
    return subprocess.run(command, cwd=ROOT, preexec_fn=end_with_parent).returncode == 0


def suites_to_retry() -> list[str]:
    """Names of the suites with cells that `retry: failed` in params.yaml runs again."""
    settings = params.load(ROOT)
    if settings.get("retry") != config.Retry.failed:
        return []
    folders = [ROOT / "results" / str(suite) for suite in settings.suites]
    return [
        folder.name
        for folder in folders
        if (folder / PLAN).exists() and any(r.status in RETRIED for r in plan_file.read_planned(folder))
    ]


def conclude() -> int:
    """Prints the failed cells and where the results are.

    Returns:
        1 if a cell failed unexpectedly or its record can't be read, else 0.
    """
    problems = []
    for suite in params.load(ROOT).suites:
        readable = plan_file.read_planned(ROOT / "results" / str(suite))
        failed = [record for record in readable if record.status in UNEXPECTED]
        problems += [f"{record.cell.suite}: {record.label}: {record.status}: {record.reason}" for record in failed]
        problems += readable.problems()
    for line in problems:
        print(line, file=sys.stderr)
    print(f"\nReport:  {ROOT / 'report' / 'index.html'}\nMLflow:  make ui")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
