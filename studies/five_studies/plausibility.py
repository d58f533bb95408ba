"""Whether a time that a study published can be true, judged from the study's own figures alone."""

# Above this share of a step, the reported communication includes the wait for the computation.
MAX_COMMUNICATION_SHARE = 0.9


def implausibilities(
    macs_per_sample: float, compute_s: float, communication_s: float, peak_flops_per_s: float
) -> list[str]:
    """Why a published time per sample can't be true.

    Args:
        macs_per_sample: multiply-adds of a forward pass, each two floating-point operations.
        compute_s: seconds per sample, published as computation; above 0.
        communication_s: seconds per sample, published as copying to the device and back.
        peak_flops_per_s: of the device in that precision, as its maker states it.

    Returns:
        One sentence per reason; empty if the time may be true.
    """
    reasons = []
    rate = 2 * macs_per_sample / compute_s
    if rate > peak_flops_per_s:
        reasons.append(
            f"{rate / 1e12:,.4g} TFLOP/s on a device with a peak of {peak_flops_per_s / 1e12:,.4g}: "
            "this is the time to launch the work, not to do it"
        )
    share = communication_s / (compute_s + communication_s)
    if share > MAX_COMMUNICATION_SHARE:
        reasons.append(
            f"{100 * share:.1f} % of the time is called communication: it includes the wait for the computation"
        )
    return reasons
