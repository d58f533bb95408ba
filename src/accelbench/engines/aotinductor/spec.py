"""What a process needs before it runs cells on AOTInductor."""

from functools import partial

from accelbench.engines.exported.spec import exporting_host

host_spec = partial(exporting_host, saves_compiled=True)
