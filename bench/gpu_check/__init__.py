"""`make gpu-check` and `make tpu-check`: check accelbench's promises on a machine with a GPU or TPU."""
