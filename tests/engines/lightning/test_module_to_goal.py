"""The user's LightningModules, trained to a target."""

from dataclasses import replace

import pytest

import own_modules
from accelbench.engines.lightning import engine
from accelbench.errors import UserError
from accelbench.judging.verdict import judge
from accelbench.schema.cell import Target
from accelbench.schema.vocab import Protocol, Span
from engines.lightning.test_user_modules import _forget, lit_cell, pytestmark  # noqa: F401


def cell_to_goal(module="Validates", **target):
    """Data with five batches in an epoch."""
    target = Target(**{"metric": "score", "value": 10.0, **target})
    return replace(lit_cell(module, protocol=Protocol.target, epochs=4), target=target)


@pytest.mark.parametrize(
    ("target", "values", "hit"),
    [
        ({}, [5.0, 10.0, 15.0], 1),
        ({"every": 0.4}, [2.0, 4.0, 6.0, 8.0, 10.0, 12.0], 4),
        ({"value": 30.0, "every_steps": 7}, [7.0, 14.0, 20.0], None),
        ({"definition": "fixed"}, [20.0], 0),
        ({"metric": "rest_nan"}, [None], None),
    ],
)
def test_its_own_validation_says_when_it_arrived(tmp_path, monkeypatch, target, values, hit):
    monkeypatch.setattr(own_modules.Data, "val_dataloader", own_modules.Validates.val_dataloader)
    cell = cell_to_goal(**target)
    measured = engine.run(cell, tmp_path)
    training = measured.target
    assert judge(cell, measured) is None
    assert [evaluation.value for evaluation in training.evaluations] == values
    assert (training.hit, training.tested, training.num_validation, training.deterministic) == (hit, None, None, False)
    assert training.evaluations[-1].num_samples == 8 * training.evaluations[-1].num_steps
    spans = [span.span for span in training.log]
    assert spans == [Span.start, Span.data, Span.build, *[Span.train, Span.evaluate] * len(values)]
    assert sum(span.seconds for span in training.log) >= 0.99 * training.log[-1].ended_s


@pytest.mark.parametrize(
    ("module", "has_loader", "problem"),
    [
        ("Lit", True, "target.metric=score: model.target=own_modules.Lit logs "),
        ("Validates", False, "Lightning ran no validation, which protocol=target needs: define val"),
    ],
)
def test_what_it_lacks_is_named(tmp_path, monkeypatch, module, has_loader, problem):
    if has_loader:
        monkeypatch.setattr(own_modules.Data, "val_dataloader", own_modules.Validates.val_dataloader)
        monkeypatch.setattr(own_modules.Lit, "validation_step", lambda *_: None)
    with pytest.raises(UserError, match=problem):
        engine.run(cell_to_goal(module), tmp_path)
