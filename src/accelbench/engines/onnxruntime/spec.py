"""What a process needs before it runs cells on ONNX Runtime."""

from functools import partial

from accelbench.engines.exported.spec import exporting_host

host_spec = partial(exporting_host, more=("torch.onnx._internal.exporter._core",))
