import pytest

from accelbench.bundle.replay import key_of
from accelbench.errors import UserError
from accelbench.schema.vocab import Device
from five_studies.claims import claims


def test_the_times_of_study_003_give_its_conclusions():
    found = {each.what.partition(" (")[0].partition(": ")[2]: round(each.judged.ratio, 2) for each in claims("003")}
    assert found == {
        "gpu fp32 b16 over cpu fp32 b16": 6.97,
        "gpu fp32 b8 over cpu fp32 b8": 4.95,
        "gpu fp32 b16 over gpu fp32 b8": 1.32,
    }


def test_a_study_without_claims_is_refused():
    with pytest.raises(UserError, match="^study:009: has no claims to replay. Choose from: 000, 001, 002, 003, 004"):
        claims("009")


@pytest.mark.parametrize(("study", "num"), [("002", 1), ("003", 3), ("004", 4)])
def test_each_claim_is_of_two_cells_that_differ_in_what_a_user_chooses(study, num):
    found = claims(study)
    assert len(found) == num
    for first, second in (claim.cells for claim in found):
        assert (first.model, first.data, first.mode) == (second.model, second.data, second.mode)
        assert key_of(first) != key_of(second)
        assert all(cell.engine == ("pytorch" if study == "003" else "keras") for cell in (first, second))
    assert all(claim.judged.ratio > 1.2 for claim in found)
    assert {cell.device for claim in found for cell in claim.cells} <= {Device.cpu, Device.gpu, Device.tpu}
