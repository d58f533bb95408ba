"""A job is a model in one mode, such as `mlp train`. Its gains say how much faster settings are than a reference."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from accelbench.answers.cells import Gap, MeasuredCell, Word
from accelbench.answers.sentences import Answer
from accelbench.answers.words import DEVICES, ENGINES, feeding_text, model_text, setting_name
from accelbench.schema.vocab import Protocol


class Job(NamedTuple):
    """A job with a unique name."""

    answer: Answer
    name: str

    @property
    def gains(self) -> Sequence[Gap]:
        return self.answer.group.gains

    @property
    def gain(self) -> Gap:
        """The gain that is shown for the job. It is the first of these that exists.

        1. the largest sure or likely gain above 1;
        2. the largest undecided gain whose 95 % interval is unknown or ends above 1;
        3. the largest of all gains.
        """
        if self.answer.best:
            return self.answer.best
        untold = [gain for gain in self.gains if gain.word == Word.cant_tell]
        may_gain = [gain for gain in untold if gain.bounds is None or gain.bounds[1] > 1]
        return (may_gain or self.gains)[0]

    @property
    def batch(self) -> str:
        """The batch size of `cell` as text, such as ` b128`. Empty if the job has only one batch size."""
        several = len({cell.cell.batch_size for cell in self.answer.group.cells}) > 1
        return f" b{self.cell.cell.batch_size}" if several else ""

    @property
    def cell(self) -> MeasuredCell:
        """The cell that has the `gain`. If the job has no gains, it is the fastest cell."""
        return self.gain.first if self.gains else self.answer.fastest

    @property
    def reference(self) -> MeasuredCell | None:
        """The cell that `cell` is compared with. None if the job has no gains."""
        return self.gain.second if self.gains else None

    @property
    def choice(self) -> str:
        """The name of `cell` in a picture, such as `OpenVINO int8` or `PyTorch bf16 b128`."""
        return self.name_of(self.cell) + self.batch

    def name_of(self, cell: MeasuredCell) -> str:
        """The name of a cell in a picture, such as `OpenVINO int8` or `PyTorch fp32 on GPU`."""
        environment = self.answer.group.environments.get(cell.measured_key)
        return setting_name(cell, beside=self.reference or cell, environment=environment)


def jobs(answers: Sequence[Answer]) -> list[Job]:
    """Returns the jobs: first those with a gain above 1 that is sure or likely, then others with gains, then the rest.

    Within each kind, the job with the largest gain comes first.
    """
    named = [Job(answer, name) for answer, name in zip(answers, _names(answers), strict=True)]
    return sorted(named, key=lambda job: (not job.gains, job.answer.best is None, -job.gain.ratio if job.gains else 0))


def _names(answers: Sequence[Answer]) -> list[str]:
    """Returns names such as `mlp train` and `cnn fit`. If two names are equal, details such as the data are added."""
    names = []
    details = []
    for answer in answers:
        cell = answer.fastest.cell
        how = cell.mode if cell.protocol == Protocol.window else cell.protocol
        names.append(f"{model_text(answer.fastest)} {how}")
        fed = feeding_text(answer.fastest).removesuffix(cell.protocol).strip()
        details.append((fed, answer.group.where, cell.data.name, answer.data, f"#{len(names)}"))
    for of_all in zip(*details, strict=True):
        nums = Counter(names)
        for place, detail in enumerate(of_all):
            if nums[names[place]] > 1 and detail:
                names[place] += f" {detail}"
    return names


def reference_text(every: Sequence[Job]) -> str:
    """Names the reference, such as `PyTorch fp32 on CPU`. If the jobs' references differ, the text is general."""
    references = [(job, gain.second) for job in every for gain in job.gains]
    names = {f"{job.name_of(cell)} on {DEVICES[cell.cell.device]}" for job, cell in references}
    return names.pop() if len(names) == 1 else "what was asked for first"


def kind_of(gap: Gap) -> str:
    """Names the engine of the first cell. If the two cells ran on different devices, also names the first's device."""
    cell = gap.first.cell
    on = "" if cell.device == gap.second.cell.device else f" on {DEVICES[cell.device]}"
    return ENGINES[cell.engine] + on
