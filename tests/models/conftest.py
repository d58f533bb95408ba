"""A table of what became of the networks, by group."""

from collections import Counter

import pytest

ENDED = pytest.StashKey[list]()  # group, how it ended, and for all but `ok` the network and what was found


@pytest.fixture
def ended(pytestconfig):
    return pytestconfig.stash.setdefault(ENDED, [])


def pytest_terminal_summary(terminalreporter, config):
    ended = config.stash.get(ENDED, [])
    for group in dict.fromkeys(each[0] for each in ended):
        counts = Counter(how for found, how, _ in ended if found == group)
        terminalreporter.write_line(f"{group}: {counts.total()} networks: {dict(counts)}")
        for _, how, what in (each for each in ended if each[0] == group and each[1] != "ok"):
            terminalreporter.write_line(f"    {how}: {what}")
