import math
from dataclasses import replace

import pytest

from accelbench.grid.estimate import FACTOR, START_S, Evidence, Length, lengths, total
from accelbench.schema.cell import Window
from accelbench.schema.vocab import Engine, Precision, Protocol
from fakes import make_cell
from grid.finished import finished, of_model

STEPS = make_cell(protocol=Protocol.steps, steps=100)


@pytest.mark.parametrize("high", [10.0, 15.0, 22.5])
def test_an_estimate_is_within_its_factor_of_both_limits(high):
    found = Length(10.0, high, num=1).estimate_s
    assert found / FACTOR <= 10.0 <= high <= found * FACTOR


@pytest.mark.parametrize("high", [22.6, math.inf])
def test_limits_that_are_too_far_apart_are_no_estimate(high):
    assert Length(10.0, high, num=1).estimate_s is None


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (Length(), "0 s"),
        (Length(170.0, 170.0, 12), "about 3 min"),
        (Length(0.2, 0.3, 1), "about 1 s"),
        (Length(30.0, 40.0, 12, 1), "about 35 s"),  # the others are long enough
        (Length(40.0, math.inf, 12, 5, 3), "at least 40 s (5 cells of unknown length)"),
        (Length(0.0, math.inf, 12, 1, 1), "unknown time (1 cell of unknown length)"),
        (
            Length(900.0, math.inf, 432, 432, 432),
            "at least 15 min (nothing like them was measured here yet)",
        ),
        (Length(0.0, math.inf, 1, 1, 1), "unknown time (nothing like it was measured here yet)"),
        (Length(10.0, 50.0, 2, 2, 0), "at least 10 s (2 cells of unknown length)"),
    ],
)
def test_the_text_says_what_is_known(length, text):
    assert length.text == text
    assert text.startswith(str(length))


def test_a_total_adds_the_limits():
    evidence = Evidence([finished(STEPS, 0.1)])
    known, unknown = total([STEPS], evidence, [STEPS]), total([of_model("cnn", STEPS)], evidence, [STEPS])
    assert known.num_unknown == known.num_new == 0
    assert (unknown.num_unknown, unknown.num_new) == (1, 1)
    both = total([STEPS, of_model("cnn", STEPS)], evidence, [STEPS])
    assert both == known + unknown
    assert both.shortest_s == known.estimate_s
    assert both.estimate_s is None


def test_a_long_known_part_makes_a_total_known():
    evidence = Evidence(
        [finished(replace(STEPS, batch_size=16), 0.1), finished(replace(STEPS, steps=1, batch_size=16), 0.1)]
    )
    wide = replace(STEPS, steps=1, batch_size=128)
    assert total([wide], evidence, [STEPS]).num_unknown == 1
    assert total([wide, *[replace(STEPS, batch_size=16, seed=seed) for seed in range(5)]], evidence, [STEPS]).estimate_s


def test_the_first_cell_of_a_host_waits_for_its_start():
    evidence = Evidence([finished(STEPS, 0.1, at_s=0.0, waited_s=8.0), finished(STEPS, 0.1, at_s=30.0)])
    first, second = lengths([STEPS, replace(STEPS, seed=1)], evidence)
    assert first.estimate_s == pytest.approx(second.estimate_s + 8.0)
    (started,) = lengths([STEPS], evidence, started=[replace(STEPS, batch_size=8)])
    assert started == second


def test_the_first_of_the_cells_that_load_an_exported_network_waits_for_its_export():
    cell = replace(STEPS, engine=Engine.openvino)
    seen = [finished(cell, 0.1, at_s=at_s, waited_s=waited_s) for at_s, waited_s in ((0.0, 12.0), (30.0, 0.0))]
    seen.append(finished(replace(cell, batch_size=8), 0.1, at_s=60.0, waited_s=4.0))
    evidence = Evidence(seen)
    for other, waits_s in ((cell, 12.0), (replace(cell, batch_size=8), 4.0), (replace(cell, batch_size=4), 8.0)):
        first, second = lengths([other, replace(other, repeat=1)], evidence)
        assert first.longest_s - second.longest_s == pytest.approx(waits_s)
    started = [replace(cell, precision=Precision.bf16), replace(cell, batch_size=8)]  # formats share the file
    assert lengths([cell], evidence, started) == lengths([cell, cell], evidence)[1:]


def test_where_no_start_was_seen_short_cells_are_of_unknown_length():
    short = make_cell(window=Window(measure_s=0.1))
    evidence = Evidence([finished(short)])
    (first,) = lengths([short], evidence)
    assert first.longest_s - first.shortest_s == pytest.approx(START_S[1] - START_S[0])
    assert first.num_unknown == 1
    assert first.num_new == 0
