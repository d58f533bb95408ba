"""`make gpu-check` and `make tpu-check`: what accelbench promises, checked on a machine that has such a device."""
