from sweep.conftest import shared as hosts  # noqa: F401
