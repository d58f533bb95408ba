"""The operators that a step spends its time in: they show which kernels the network really ran on."""

from torch.autograd.profiler import profile

from accelbench.engines.lightning.backends import Backend
from accelbench.measuring.runner import ONE_RANK, RankGroup, Step
from accelbench.schema.measurement import Operator

MAX_OPERATORS = 10


def busiest(step: Step, backend: Backend, ranks: RankGroup = ONE_RANK) -> list[Operator]:
    """Runs one step under torch's profiler, which slows it down: to be called after everything was measured.

    The time of an operator excludes the operators that it calls, so that the kernel is named that did the work:
    `aten::mkldnn_convolution`, not `aten::conv2d`, which chose it. On a GPU it is the time on the device.

    Args:
        step: the workload, warmed up.
        backend: the device.
        ranks: the processes that run the step.

    Returns:
        At most `MAX_OPERATORS` operators, the busiest first; empty if the device runs recorded steps as a whole.
    """
    if backend.fused:
        return []
    on_gpu = backend.torch_type == "cuda"
    # The first use of `torch.profiler` in a process takes seconds; this one does not.
    ranks.begin(1)
    with profile(use_device="cuda" if on_gpu else None) as profiled:
        step.compute(step.copy_in(step.fetch()))
        backend.wait()
    ranks.end()
    events = profiled.key_averages()
    times = {event.key: event.self_device_time_total if on_gpu else event.self_cpu_time_total for event in events}
    total = sum(times.values())
    if not total:
        return []
    calls = {event.key: event.count for event in events}
    names = sorted(times, key=times.__getitem__, reverse=True)[:MAX_OPERATORS]
    return [Operator(name=name, num_calls=calls[name], share=times[name] / total) for name in names if times[name]]
