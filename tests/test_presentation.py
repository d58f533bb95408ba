import pytest

from accelbench.presentation import UNKNOWN, exact, seconds, significant


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1, "1.00"),
        (999.6, "1,000"),
        (0.9996, "1.00"),
        (1_234_567, "1,230,000"),
        (0.001234, "0.00123"),
        (1.234e-7, "1.23e-07"),
        (-10.24, "-10.2"),
        (None, UNKNOWN),
    ],
)
def test_three_significant_digits(value: float | None, text: str) -> None:
    assert significant(value) == text


def test_exact_keeps_every_digit_and_an_estimate_is_marked_on_the_number() -> None:
    assert [exact(value) for value in (1259.83, 0.335, 60_000, None)] == ["1,259.83", "0.335", "60,000", UNKNOWN]
    assert [seconds(12.34, estimated=is_estimated) for is_estimated in (True, False)] == ["~12.3", "12.3"]
    assert seconds(None, estimated=True) == UNKNOWN
