from report.conftest import maker, read  # noqa: F401
