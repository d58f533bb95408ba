"""Quantised networks: what became of one, in words."""

from collections.abc import Mapping, Sequence

from accelbench.engines.formats import INTEGERS

# Parts of the names of operators that convert between integers and floating-point numbers.
CONVERSIONS = ("quantize", "convert", "reorder")


def described(formats: Mapping[str, int], times: Sequence[tuple[str, float]], *, fast_integers: bool) -> str:
    """How much of a network was quantised, and what keeps it from being faster.

    Args:
        formats: of its matrix products: NumPy's name -> how many.
        times: of the operators of one call, with the seconds of each; may be empty.
        fast_integers: whether the CPU multiplies integers faster than fp32.
    """
    num_integers = sum(num for name, num in formats.items() if name in INTEGERS)
    parts = [f"{num_integers} of {sum(formats.values())} matrix products multiply integers"]
    total = sum(seconds for _, seconds in times)
    converting = sum(seconds for name, seconds in times if any(word in name.lower() for word in CONVERSIONS))
    if total:
        parts.append(f"converting between formats takes {100 * (converting / total):.0f} % of a call")
    if not fast_integers:
        parts.append("this CPU has no instructions for int8 (VNNI or AMX), so that it gains little")
    return "; ".join(parts)
