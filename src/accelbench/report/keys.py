"""What tells the places apart in which records were measured."""

from accelbench.schema.record import Record
from accelbench.schema.serialize import group_key


def device_key(record: Record) -> str:
    """A key that is equal for records of the same device, machine and software, probed by the same code."""
    probe_code = record.environment.get("probe_code", record.environment.get("code"))
    return group_key([record.cell.device, fingerprint_of(record) | {"code": probe_code}])


def fingerprint_of(record: Record) -> dict[str, object]:
    """The machine, software and measuring code of a record."""
    return {name: record.environment.get(name) for name in ("machine", "versions", "variables", "code")}
