import pytest

from accelbench.doctor.selfcheck import COLUMNS, GOVERNOR, SMT, advice, steal

IDLE = (0.0, 100.0), (0.0, 200.0)


@pytest.mark.parametrize(
    ("path", "text", "word"),
    [(GOVERNOR, "powersave\n", "powersave"), (SMT, "1\n", "SMT"), (GOVERNOR, "performance", "")],
)
def test_settings_of_the_machine_that_make_noise_are_named_and_a_quiet_one_needs_no_advice(path, text, word, tmp_path):
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(text)
    found = list(advice([], *IDLE, tmp_path))
    assert len(found) == bool(word)
    assert all(word in sentence for sentence in found)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ((40.0, 0.0, 0.0, 100.0, 0.0), "Other programs used 40 % of a core"),
        ((0.0, 0.2, 50_000.0, 100.0, None), "took 20 % of the processor time, mostly for page faults"),
        ((0.0, 0.2, 0.0, 100.0, None), "The kernel took 20 % of the processor time."),
        ((0.0, 0.0, 0.0, 100.0, 0.3), "A CPU quota stopped 5 of 5 processes"),
        ((None, None, None, None, None), None),
    ],
)
def test_what_disturbed_processes_is_named(seen, words, tmp_path):
    found = list(advice([dict(zip((*COLUMNS, "throttled_s"), seen, strict=True))] * 5, *IDLE, tmp_path))
    assert len(found) == bool(words)
    assert all(words in sentence for sentence in found)


def test_stolen_time_is_named(tmp_path):
    (sentence,) = advice([], (1.0, 100.0), (6.0, 200.0), tmp_path)
    assert "5.0 % of the processor time" in sentence
    stolen_s, all_s = steal()
    assert 0 <= stolen_s < all_s
