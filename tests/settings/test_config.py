import dataclasses

from accelbench.settings.config import Retry, SweepOptions, differing_options

OPTIONS = SweepOptions(suite="s", title="S", study=None, profile=None, tracking="none", out=None, retry=Retry.none)


def test_options_that_differ_are_named_but_for_those_of_the_suite():
    assert differing_options(OPTIONS, OPTIONS) == ""
    other = dataclasses.replace(OPTIONS, title="T", study="001", tracking="mlflow", repeats=2)
    assert differing_options(OPTIONS, other) == "tracking, repeats"
