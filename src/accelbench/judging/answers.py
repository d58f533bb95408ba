"""The columns of a trained classifier's answers."""

from accelbench.schema.measurement import Answers
from accelbench.schema.record import Row
from accelbench.stats.means import share_difference


def answers_columns(answers: Answers | None) -> Row:
    """The accuracy, that of fp32, and the first minus the second with its 95 % interval."""
    if answers is None:
        return {}
    num = answers.num_samples
    low, high = share_difference(num, answers.num_won, answers.num_lost)
    return {
        "accuracy": answers.num_right / num,
        "fp32_accuracy": answers.num_fp32_right / num,
        "accuracy_change": (answers.num_right - answers.num_fp32_right) / num,
        "accuracy_change_low": low,
        "accuracy_change_high": high,
    }
