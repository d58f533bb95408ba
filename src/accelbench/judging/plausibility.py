"""Whether a published time can be true: what anyone can check without the machine it was measured on."""

# Beyond this share of a step, what is called communication is where the computing was waited for.
MAX_COMMUNICATION_SHARE = 0.9


def flops_per_s(macs_per_sample: float, seconds_per_sample: float) -> float:
    """Floating-point operations per second, two to a multiply-add.

    Args:
        macs_per_sample: multiply-adds of the network, forwards.
        seconds_per_sample: what is said that they take; above 0.
    """
    return 2 * macs_per_sample / seconds_per_sample


def doubts(macs_per_sample: float, compute_s: float, communication_s: float, peak_flops_per_s: float) -> list[str]:
    """Why a time per sample is not believed; nothing where it may be true.

    Args:
        macs_per_sample: multiply-adds of the network, forwards.
        compute_s: seconds per sample that are said to be computation.
        communication_s: seconds per sample that are said to be copying to the device and back.
        peak_flops_per_s: of the device in that precision, as its maker states it.

    Returns:
        A sentence for each reason.
    """
    reasons = []
    rate = flops_per_s(macs_per_sample, compute_s)
    if rate > peak_flops_per_s:
        reasons.append(
            f"{rate / 1e12:,.4g} TFLOP/s on a device with a peak of {peak_flops_per_s / 1e12:,.4g}: "
            "the time to launch the work, not to do it"
        )
    share = communication_s / (compute_s + communication_s)
    if share > MAX_COMMUNICATION_SHARE:
        reasons.append(f"{share:.1%} of the time is called communication: the work was waited for there")
    return reasons
