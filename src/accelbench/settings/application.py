"""Runs the command line as a Hydra application, with the plugins in `hydra_plugins/accelbench.py`."""

import os
import sys
from collections.abc import Callable, Sequence

import hydra

from accelbench.errors import UserError
from accelbench.project import workplace
from accelbench.settings.compose import prepared, resolvers
from accelbench.settings.suites import is_hydras

LAUNCHER = "accelbench"


def run(measure: Callable[..., object], flags: Sequence[str], words: Sequence[str], *, is_sweep: bool) -> None:
    """Starts Hydra, which composes configurations from `words` and passes them to `measure`.

    `flags` are Hydra's own. With some of them, such as --cfg, Hydra does not call `measure`. `measure` gets the
    configurations and the folder of the records. It returns the samples/s of each configuration. Raises UserError if a
    word is not a setting, or if a setting has several values without -m.
    """
    dir_word = "hydra.sweep.dir=" if is_sweep else "hydra.run.dir="  # Hydra's name for `out`
    words = [f"out={word.removeprefix(dir_word)}" if word.startswith(dir_word) else word for word in words]
    of_accelbench = prepared([word for word in words if not is_hydras(word)], is_sweep)
    of_hydra = [word for word in words if is_hydras(word)]
    values = dict(word.partition("=")[::2] for word in [*of_hydra, *of_accelbench])
    if (launcher := values.get("hydra/launcher", LAUNCHER)) != LAUNCHER:
        raise UserError(
            f"hydra/launcher={launcher}: only accelbench's launcher is allowed, because it runs one cell after "
            "another: leave hydra/launcher out. To use several machines, add executor=slurm or executor=ray"
        )
    if {"suite", "hydra/sweeper"} <= set(values):
        raise UserError(
            f"hydra/sweeper={values['hydra/sweeper']}: can't be combined with suite=: leave one of the two out"
        )
    main = hydra.main(config_path=str(workplace().conf), config_name="config", version_base="1.3")(measure)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # so that Hydra raises its errors, which `cli` translates
    before = sys.argv
    multirun = ["-m"] if is_sweep else []
    sys.argv = [sys.argv[0], *multirun, *flags, *of_hydra, *of_accelbench]
    try:
        with resolvers():
            main()
    finally:
        sys.argv = before
