"""What docs/serving.md says of load tests, with a real clock: docs/wrong_ways.py computes its table."""

import time

import numpy as np

from accelbench.schema.cell import Server
from accelbench.schema.vocab import Protocol
from accelbench.serving.server import Service, serve

STALL_S, EVERY_S = 0.2, 0.5


def test_one_request_after_another_hides_a_stall_that_users_see() -> None:
    def percentile_ms(protocol):
        next_s = time.monotonic() + EVERY_S

        def answer(batch):
            nonlocal next_s
            stalls = time.monotonic() >= next_s
            next_s += EVERY_S * stalls
            time.sleep(0.001 + STALL_S * stalls)

        service = Service(pool=[0], join=list, workers=[answer])
        served = serve(service, protocol, Server(rate=100, latency_ms=500, duration_s=0.8), seed=0)
        assert served.num_errors == 0
        return np.percentile(served.done - served.due, 99) / 1e6

    assert percentile_ms(Protocol.single_stream) < 100
    assert percentile_ms(Protocol.server) > 150
