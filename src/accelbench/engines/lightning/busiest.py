"""The operators that a step spends its time in: two networks of the same name may run on kernels that are not alike."""

from torch.autograd.profiler import profile

from accelbench.engines.lightning.backends import Backend
from accelbench.measuring.step import ONE_RANK, RankGroup, Step
from accelbench.schema.measurement import Operator

MAX_OPERATORS = 10


def busiest(step: Step, backend: Backend, team: RankGroup = ONE_RANK) -> list[Operator]:
    """Runs one step under torch's profiler, which slows it down: to be called when all was measured.

    An operator's time is its own, without the operators that it calls, so that what is named is what did the work:
    `aten::mkldnn_convolution`, and not `aten::conv2d`, which chose it. On a GPU it is the device's.

    Args:
        step: the workload, warmed up.
        backend: its device.
        team: the processes that take the step with this one.

    Returns:
        The busiest first, at most `MAX_OPERATORS`; empty where a device runs a recorded step as a whole.
    """
    if backend.fused:
        return []
    on_gpu = backend.torch_type == "cuda"
    # Not `torch.profiler`: its first use in a process takes seconds.
    team.begin(1)
    with profile(use_device="cuda" if on_gpu else None) as profiled:
        step.compute(step.copy_in(step.fetch()))
        backend.wait()
    team.end()
    events = profiled.key_averages()
    times = {event.key: event.self_device_time_total if on_gpu else event.self_cpu_time_total for event in events}
    total = sum(times.values())
    if not total:
        return []
    calls = {event.key: event.count for event in events}
    names = sorted(times, key=times.__getitem__, reverse=True)[:MAX_OPERATORS]
    return [Operator(name=name, num_calls=calls[name], share=times[name] / total) for name in names if times[name]]
