"""The process that issues requests by MLPerf's LoadGen: what `generator.py` does, with its arguments and its pipe.

LoadGen draws the arrivals of its scenario "server" by its own seed. It gets an answer to each request at once: it makes
the load, and how long answers take is accelbench's to measure. Only its trace says when requests were due, so until it
has ended, a request counts as due when it was issued. See the LoadGen's loadgen.h and bindings/python_api.cc.
"""

import mmap
import os
import re
import sys
import time
from pathlib import Path

READY = b"r"
TRACE = "mlperf_log_trace.json"  # which is no valid JSON
# Of a sample in the trace: when it was due, in microseconds with three decimals, and its number.
DUE = re.compile(r'"name":"Sample",.*?"ph":"b".*?"ts":(\d+)\.(\d{3}),"args":\{"sample_seq":\d+,"query_seq":(\d+)')
MIN_LATENCY_NS = 1  # unused: nothing here is judged by LoadGen


def main() -> None:
    """Issues requests: the arguments number the file of their times and the pipe; the rate, the seed, and a folder."""
    import mlperf_loadgen

    file, out, seed, rate, folder = *map(int, (sys.argv[1], sys.argv[2], sys.argv[4])), float(sys.argv[3]), sys.argv[5]
    times = memoryview(mmap.mmap(file, 0)).cast("q")
    num, now, issued = len(times) // 4, time.monotonic_ns, 0

    def issue(samples: list[mlperf_loadgen.QuerySample]) -> None:
        nonlocal issued
        times[issued] = times[num + issued] = now()
        issued += 1
        os.write(out, b"\0")
        mlperf_loadgen.QuerySamplesComplete([mlperf_loadgen.QuerySampleResponse(each.id, 0, 0) for each in samples])

    settings = mlperf_loadgen.TestSettings()
    settings.scenario, settings.mode = mlperf_loadgen.TestScenario.Server, mlperf_loadgen.TestMode.PerformanceOnly
    settings.server_target_qps, settings.server_target_latency_ns = rate, MIN_LATENCY_NS
    settings.min_duration_ms, settings.min_query_count, settings.max_query_count = 0, num, num
    settings.server_num_issue_query_threads = 0
    settings.schedule_rng_seed = settings.sample_index_rng_seed = settings.qsl_rng_seed = seed
    log, output = mlperf_loadgen.LogSettings(), mlperf_loadgen.LogOutputSettings()
    output.outdir, output.copy_summary_to_stdout = folder, False
    log.log_output, log.enable_trace = output, True
    system = mlperf_loadgen.ConstructSUT(issue, lambda: None)
    library = mlperf_loadgen.ConstructQSL(1, 1, lambda indices: None, lambda indices: None)
    os.write(out, READY)
    if sys.stdin.readline():  # nothing: the server has ended
        mlperf_loadgen.StartTestWithLogSettings(system, library, settings, log, "")
        _note_due(times, Path(folder, TRACE).read_text())


def _note_due(times: memoryview, trace: str) -> None:
    """Replaces the times at which requests were due by those that LoadGen planned, on the clock of their issuing."""
    num, planned = len(times) // 4, {int(query): int(us + ns) for us, ns, query in DUE.findall(trace)}
    if planned.keys() != set(range(num)):
        raise ValueError(f"LoadGen's trace has {len(planned)} of {num} requests")
    # Each was issued some time after it was due: the least delay says how the two clocks differ.
    start_ns = min(times[num + query] - at_ns for query, at_ns in planned.items())
    for query, at_ns in planned.items():
        times[query] = start_ns + at_ns


if __name__ == "__main__":
    main()
