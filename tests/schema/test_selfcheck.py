import pytest

from accelbench.schema import selfcheck

HERE, THERE = {"cpu_name": "here"}, {"cpu_name": "there"}


def error(*slowdowns):
    pairs = zip((5, 10, 20), slowdowns, strict=True)
    detectable = [selfcheck.Detectable(num_processes=num, slowdown=slowdown) for num, slowdown in pairs]
    return selfcheck.MachineError(num_rounds=40, low=-0.01, high=0.02, detectable=detectable)


@pytest.fixture
def check():
    cells = {"light": error(0.0611, 0.04, 0.02), "heavy": error(0.05, 0.041, 0.03)}
    return selfcheck.SelfCheck(measured_at="2026-11-20T09:00:00+00:00", took_s=600.0, cells=cells)


def test_the_sentence_says_the_larger_of_both_cells_differences(check):
    assert check.sentence == (
        "On this CPU, 4 of 5 comparisons detect that a setting is slower by 6.2 % with 5 processes, 4.1 % with 10 "
        "processes, 3.0 % with 20 processes of each setting."
    )


def test_a_machine_finds_its_own_check_only_and_a_file_without_figures_counts_as_none(check, tmp_path):
    assert selfcheck.read_selfcheck(tmp_path, HERE) is None
    selfcheck.write_selfcheck(tmp_path, HERE, check)
    selfcheck.write_selfcheck(tmp_path, THERE, selfcheck.SelfCheck(**{**vars(check), "took_s": 1.0}))
    assert selfcheck.read_selfcheck(tmp_path, HERE) == check
    assert selfcheck.read_selfcheck(tmp_path, THERE).took_s == 1.0
    assert selfcheck.read_selfcheck(tmp_path, {"cpu_name": "elsewhere"}) is None
    (tmp_path / selfcheck.SELFCHECK).write_text("[")
    assert selfcheck.read_selfcheck(tmp_path, HERE) is None
    for spoilt in ({"took_s": -1}, {"cells": {}}):
        selfcheck.write_selfcheck(tmp_path, HERE, selfcheck.SelfCheck(**{**vars(check), **spoilt}))
        assert selfcheck.read_selfcheck(tmp_path, HERE) is None
