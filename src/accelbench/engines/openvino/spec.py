"""What a process needs before it runs cells on OpenVINO."""

from functools import partial

from accelbench.engines.exported.spec import exporting_host

host_spec = partial(exporting_host, more=("openvino",))
