"""The checkpoints of a training: which are written, which are kept, and where it goes on."""

import dataclasses
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from relaxjax.ir.arguments import check_flags
from relaxjax.ir.whole_file import obstacle, remove_abandoned

from .callbacks import Direction, Monitor
from .devices.processes import all_did, are_several, is_first, wait_for_all
from .number_checks import is_count
from .reports.epoch_report import EpochReport
from .saving.background import Background
from .saving.checkpoint import UnusableCheckpointError, notes, write_shards
from .saving.resume_check import check_begun
from .saving.shards import INDEX, remove
from .trained_model import TrainedModel

_NAME = re.compile(r"step-(\d+)(\.safetensors)?")
_LEFT = 30.0  # seconds for a checkpoint to be written, where a training of several processes failed


@dataclass(frozen=True)
class Position:
    """Where in its data a training is: finished epochs, and the steps of the open one."""

    reports: tuple[EpochReport, ...] = ()
    steps: int = 0  # in the open epoch
    loss_sum: float = 0.0  # of those steps

    @property
    def total_steps(self) -> int:
        return sum(report.steps for report in self.reports) + self.steps

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> "Position":
        fields = json.loads(text)
        reports = tuple(EpochReport(**report) for report in fields.pop("reports"))
        return Position(reports, **fields)


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints in a folder of their own.

    One is written after each epoch, and one every `every` steps if given. The last `keep` stay. The
    best epoch by `best`, the name of a metric or "loss", stays as `best.safetensors`.

    Those that are `sharded` are folders, `step-000000100` and `best`, into which each process
    writes only the shards of arrays that it has. That happens while the training goes on, of a copy
    in the host's memory; the next checkpoint waits for it. An error in writing is raised at the
    next step, or of several processes at the next checkpoint, in each of them.
    """

    folder: str | os.PathLike[str]
    every: int | None = None
    keep: int = 3
    best: str | None = None
    direction: Direction = field(default="auto", kw_only=True)
    sharded: bool = field(default=False, kw_only=True)
    _own: set[Path] = field(default_factory=set, init=False, repr=False, compare=False)
    _writing: Background = field(default_factory=Background, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("every", "keep"):
            value = getattr(self, name)
            is_left_out = name == "every" and value is None
            if not is_left_out and not is_count(value, 1):
                raise ValueError(
                    f"`{name}` of Checkpoints must be an integer of at least 1, but it is {value!r}"
                )
        check_flags(sharded=self.sharded)
        Monitor("loss" if self.best is None else self.best, self.direction)  # which checks them

    @property
    def best_path(self) -> Path:
        return self._path("best")

    def paths(self) -> list[Path]:
        """The checkpoints that are there, the oldest first."""
        found = (path for path in Path(self.folder).glob("step-*") if _NAME.fullmatch(path.name))
        return sorted((path for path in found if _is_there(path)), key=_steps)

    def is_due(self, steps: int) -> bool:
        """Whether one is written after so many steps."""
        return self.every is not None and steps % self.every == 0

    def write(self, trainer: TrainedModel, position: Position) -> None:
        """Save the trainer here, and remove what is older than the last few."""
        self._save(trainer, [f"step-{position.total_steps:09}"], position)

    def write_epoch(self, trainer: TrainedModel, position: Position) -> None:
        """Save the trainer after an epoch, and once more if it was the best one.

        The best one comes first: a training that is killed in between makes its epoch again.
        """
        best = ["best"] if self._ends_best(position.reports) else []
        self._save(trainer, [*best, f"step-{position.total_steps:09}"], position)

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """Behind it, all that is begun inside is written; what failed is raised."""
        try:
            yield
        except BaseException:
            self._writing.settle(_LEFT if are_several() else None)
            raise
        self._writing.wait()

    def check(self) -> None:
        """Raise what went wrong with the last checkpoint, where that is known.

        Several processes would not come to know it at the same step.
        """
        if not are_several():
            self._writing.check()

    def _save(self, trainer: TrainedModel, names: Sequence[str], position: Position) -> None:
        self._writing.wait()
        if is_first():
            Path(self.folder).mkdir(parents=True, exist_ok=True)
            self._check_own()
        paths = [self._path(name) for name in names]
        if self.sharded:
            found = trainer.snapshot({"position": position.to_json()})

            def write() -> None:
                for path in paths:
                    write_shards(path, found)
                self._remove_old()

            self._own.update(paths)
            self._writing.start(write)
            return
        for path in paths:
            trainer.save(path, {"position": position.to_json()})
            self._own.add(path)
        self._remove_old()

    def _remove_old(self) -> None:
        for old in self.paths()[: -self.keep] if is_first() else ():
            remove(old)

    def _path(self, name: str) -> Path:
        return Path(self.folder) / (name if self.sharded else f"{name}.safetensors")

    def _check_own(self) -> None:
        """Raise where another training began in the folder before either had a checkpoint."""
        foreign = [path for path in self.paths() if path not in self._own]
        if foreign:
            raise FileExistsError(
                f"another training has written `{foreign[-1]}` since this one began: give each a "
                "folder of its own; the trainer still holds what it has learned, for `save`"
            )

    def _ends_best(self, reports: Sequence[EpochReport]) -> bool:
        """Whether the last report is the best of those that hold what it goes by."""
        found = self.monitor.holding(reports) if self.monitor is not None else []
        if self.monitor is None or not found or found[-1] is not reports[-1]:
            return False
        return self.monitor.best(found) == len(found) - 1

    def resume(self, trainer: TrainedModel) -> Position:
        """Load the last checkpoint into the trainer; without one, the training begins."""
        if is_first():
            self._remove_abandoned()
        wait_for_all("the start of the training")
        paths = self.paths()
        self._own.update(paths)
        if not paths:
            return Position()
        begun: list[Position] = []
        try:
            all_did("the last checkpoint", "load", lambda: begun.append(_resumed(paths, trainer)))
        except FileNotFoundError:
            raise FileExistsError(
                f"another training has removed `{paths[-1]}` since this one began: give each a "
                "folder of its own, or go on with that one once it has ended"
            ) from None
        return begun[0]

    def _remove_abandoned(self) -> None:
        """Remove what a training left that was killed while it wrote."""
        for part in Path(self.folder).glob(".*.safetensors.*.part"):
            remove_abandoned(part)
        for folder in Path(self.folder).glob("step-*/"):
            if _NAME.fullmatch(folder.name) and not _is_there(folder):
                remove(folder)

    @property
    def monitor(self) -> Monitor | None:
        """What the best epoch goes by."""
        return None if self.best is None else Monitor(self.best, self.direction)

    def make_folder(self) -> None:
        """Make the folder, as long as nothing is lost where that cannot be."""
        folder = Path(self.folder)
        found = obstacle(folder)
        if found is not None:
            raise FileExistsError(f"{found}: give a folder of its own")
        folder.mkdir(parents=True, exist_ok=True)

    def check_empty(self) -> None:
        """An old training in the folder is not to be mixed with a new one."""
        paths = self.paths()
        if paths:
            raise FileExistsError(
                f"`{Path(self.folder)}` holds {len(paths)} checkpoints of a training: go on with "
                "it by fit(..., resume=True), or give another folder"
            )
        if self.best_path.exists():
            raise FileExistsError(
                f"`{self.best_path}` is the best epoch of a training: move it away, or give "
                "another folder"
            )


def _resumed(paths: Sequence[Path], trainer: TrainedModel) -> Position:
    """Where the last checkpoint stands, once the trainer has loaded it."""
    try:
        position = _position(paths[-1])
        check_begun(paths[-1], trainer.mod)
        trainer.load(paths[-1])
    except UnusableCheckpointError as error:
        more = len(paths) > 1
        mend = f"; to go on from `{paths[-2]}`, move `{paths[-1]}` away" if more else ""
        raise UnusableCheckpointError(f"{error}{mend}") from None
    return position


def _position(path: Path) -> Position:
    """Where in its data a training was when it wrote a checkpoint."""
    text = notes(path).get("position")
    if text is None:
        raise UnusableCheckpointError(f"`{path}` does not say where in its data the training was")
    try:
        return Position.from_json(text)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise UnusableCheckpointError(
            f"`{path}` is damaged: it says no more where in its data the training was: {error!r}"
        ) from None


def _is_there(path: Path) -> bool:
    """Whether a checkpoint is whole: that of a folder is, once it has its index."""
    return (path / INDEX).exists() if path.suffix == "" else path.is_file()


def _steps(path: Path) -> int:
    found = _NAME.fullmatch(path.name)
    assert found is not None
    return int(found[1])
