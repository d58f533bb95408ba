"""Whether the times that a process measured fit into what holds them."""

from accelbench.schema.record import Record

ROUNDING = 1e-6  # a share by which the sum of times may exceed what holds them


def too_long(record: Record) -> str | None:
    """That its measured times are longer than what holds them: their steady state, or the whole process."""
    measured = record.measurement
    if measured is None:
        return None
    steps_s = sum(block.seconds for block in measured.blocks)
    steps_s += 0.0 if measured.steps_are_blocks else sum(measured.latency_s)
    took_s = {"steps": steps_s, "epochs": sum(each.seconds for each in measured.epochs)}
    took_s["requests"] = measured.serving.duration_s if measured.serving else 0.0
    seen = measured.target
    took_s["log"] = max((each.ended_s for each in seen.log), default=0.0) if seen else 0.0
    took_s["evaluations"] = seen.evaluations[-1].ended_s if seen else 0.0
    limits = [(what, seconds, "the whole process", record.wall_s) for what, seconds in took_s.items()]
    if measured.steady_boot_s is not None and measured.blocks:
        begin_s, end_s = measured.steady_boot_s
        limits.append(("steps", steps_s, "its steady state", end_s - begin_s))
    for what, seconds, whole, limit_s in limits:
        if seconds > limit_s * (1 + ROUNDING):
            return f"{record.name}: its {what} took {seconds:.6g} s, and {whole} {limit_s:.6g} s"
    return None
