"""The operators that a step spends its time in: they show which kernels the network really ran on."""

from torch.autograd.profiler import profile

from accelbench.engines.lightning.backends import Backend
from accelbench.measuring.runner import ONE_RANK, RankGroup, Step
from accelbench.schema.measurement import Operator

MAX_OPERATORS = 10


def busiest(step: Step, backend: Backend, ranks: RankGroup = ONE_RANK) -> list[Operator]:
    """The `MAX_OPERATORS` busiest operators of one more step, which torch's profiler slows down, the busiest first.

    The time of an operator excludes the operators that it calls, so that the kernel is named that did the work:
    `aten::mkldnn_convolution`, not `aten::conv2d`, which chose it. On a GPU it is the time on the device. A device that
    runs recorded steps as a whole has no operators.
    """
    if backend.fused:
        return []
    on_gpu = backend.torch_type == "cuda"
    ranks.begin(1)
    # The first use of `torch.profiler` in a process takes seconds; this one does not.
    with profile(use_device="cuda" if on_gpu else None) as profiled:
        step.compute(step.copy_in(step.fetch()))
        backend.wait()
    ranks.end()
    events = profiled.key_averages()
    times = {event: event.self_device_time_total if on_gpu else event.self_cpu_time_total for event in events}
    busy = sorted((event for event in events if times[event]), key=times.__getitem__, reverse=True)[:MAX_OPERATORS]
    total = sum(times.values())
    return [Operator(name=each.key, num_calls=each.count, share=times[each] / total) for each in busy]
