"""Whether this process's clocks are the machine's."""

from accelbench.errors import UserError

REPLACES = "libfaketime"  # the library that makes clocks and sleeps jump, run faster or stand still


def check_clocks() -> None:
    """Checks that no library replaces the clocks that steps are timed with.

    Raises:
        UserError: one does.
    """
    try:
        with open("/proc/self/maps") as maps:
            is_replaced = any(REPLACES in line for line in maps)
    except OSError:
        return
    if is_replaced:
        raise UserError(f"{REPLACES} replaces the clocks, so that nothing can be timed: run without it (LD_PRELOAD)")
