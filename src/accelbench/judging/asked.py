"""Whether a cell is invalid: what ran is not what was asked for, the host saw other times, or there is a defect."""

from collections.abc import Iterator

from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Check, Measurement, Witnessed
from accelbench.schema.vocab import Allocator, Device, Promise, Span

# Between two steps the clock notes times, and the host hears of a section's begin and end a moment later.
MAX_UNCLAIMED = 0.1  # share of the seconds that the host saw
MAX_UNCLAIMED_S = 0.25
MAX_ROUNDING = 1e-6  # between two sums of the same times, as a share of them
# Beside busy threads of the cell the host hears of a begin late, and then sees less than was claimed: 0.14 s were seen.
MAX_UNHEARD_S = 0.5


def judge(cell: Cell, measurement: Measurement, seen: Witnessed | None = None) -> str | None:
    """Why the cell is invalid, of which its process says this, and the host has `seen` that; None if it is valid."""
    found = [] if seen is None else list(_false_claims(cell, measurement, seen))
    for word in ("device", "precision"):
        asked, ran = getattr(cell, word), getattr(measurement, word)
        if asked != ran:
            found.append(f"asked for {word} {asked}, but {ran} ran")
    if cell.devices != measurement.num_devices:
        found.append(f"asked for {cell.devices} devices, but {measurement.num_devices} ran")
    allocator = cell.options.allocator
    if allocator not in (Allocator.default, measurement.allocator):
        found.append(f"asked for allocator {allocator}, but {measurement.allocator or 'an unknown one'} ran")
    return "; ".join([*found, *measurement.defects]) or None


def _claimed_s(measurement: Measurement) -> list[float]:
    """Seconds that the process says it timed or dropped: two sums, equal where the blocks are made of the steps."""
    steps_s, blocks_s = sum(measurement.latency_s), sum(block.seconds for block in measurement.blocks)
    evaluations_s = sum(epoch.evaluation.seconds for epoch in measurement.epochs if epoch.evaluation)
    epochs_s = sum(epoch.seconds for epoch in measurement.epochs) + evaluations_s
    steady_s = [blocks_s, steps_s] if measurement.steps_are_blocks else [blocks_s + steps_s]
    if measurement.serving is not None:  # its blocks are a part of it
        steady_s = [measurement.serving.duration_s]
    if (to := measurement.target) is not None:
        epochs_s = sum(each.seconds for each in to.log if each.span in (Span.train, Span.test))
        epochs_s += sum(each.ended_s - each.began_s for each in to.evaluations)
    return [each + (measurement.dropped_s or 0.0) + epochs_s for each in steady_s]


def _false_claims(cell: Cell, measurement: Measurement, seen: Witnessed) -> Iterator[str]:
    claims, seen_s = _claimed_s(measurement), seen.timed_s
    least_s = seen_s - MAX_UNCLAIMED_S - MAX_UNCLAIMED * seen_s - seen.late_s
    most_s = seen_s + MAX_UNHEARD_S + MAX_UNCLAIMED * seen_s + seen.late_s
    if not seen.num_sections:
        yield "its process did not say when it timed something, so that nothing confirms its times"
    elif wrong := [each for each in claims if not least_s <= each <= most_s]:
        yield f"its process claims {wrong[0]:.2f} s of measuring, and the host's clock saw {seen_s:.2f} s"
    elif max(claims) - min(claims) > MAX_ROUNDING * max(claims):
        yield "its blocks are not made of its single steps"
    # Without a function of the user that counts samples, no step has more of them than were asked for.
    most = cell.batch_size * (cell.keras.steps_per_execution if cell.keras else 1)
    if cell.model.samples is None and any(block.num_samples > most * block.num_steps for block in measurement.blocks):
        yield f"its process claims more than {most} samples a step"
    if not seen.is_bound_outside and (few := _few_cores(cell, measurement, seen)):
        yield f"its code bound the process to {few}"


def host_warnings(cell: Cell, measurement: Measurement, seen: Witnessed | None) -> Iterator[str]:
    """A warning if the user's environment bound the process to few cores."""
    if seen is not None and seen.is_bound_outside and (few := _few_cores(cell, measurement, seen)):
        yield f"OpenMP's variables bound the process to {few}"


def _few_cores(cell: Cell, measurement: Measurement, seen: Witnessed) -> str | None:
    """That a CPU's cores are fewer than the threads that compute; on other devices the host may be bound on purpose."""
    if cell.device != Device.cpu or seen.num_cores >= min(measurement.threads or 1, seen.num_allowed_cores):
        return None
    return f"{seen.num_cores} of {seen.num_allowed_cores} cores, and {measurement.threads} threads were to compute"


def host_checks(cell: Cell, measurement: Measurement, seen: Witnessed | None) -> list[Check]:
    """What the host observed of each promise."""
    times, counts = Check(promise=Promise.times), Check(promise=Promise.counts)
    if seen is not None and seen.timed_s:
        claimed = _claimed_s(measurement)[0]
        text = f"{claimed:.2f} s of blocks and steps, in {seen.timed_s:.2f} s on the host's clock"
        times = Check(promise=Promise.times, observed=text, share=min(1.0, claimed / seen.timed_s))
    if cell.model.samples is None and measurement.blocks:
        counts = Check(promise=Promise.counts, observed="samples of each block, beside batch_size", share=1.0)
    return [times, counts]
