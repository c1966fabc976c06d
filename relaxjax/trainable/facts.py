"""What is known of the arguments of a model and its loss, by which a trainer refuses batches."""

from dataclasses import dataclass
from typing import Any

from relaxjax.ir.module import IRModule

from .names import CLASS_IDS, COMPARES_CLASSES, LOSS_TAKES, LOSS_WEIGHTS, ROW_IDS
from .records import read, written


@dataclass(frozen=True, slots=True)
class ClassIds:
    """The ids in one target: 0 to `classes` - 1, and `ignored` ones, which count for nothing.

    With `has_mean`, the loss is a mean over those that count, of which there must be one.
    """

    name: str
    classes: int
    ignored: int
    has_mean: bool = False


@dataclass(frozen=True, slots=True)
class RowIds:
    """The ids in one argument, each of which picks a row: 0 to `rows` - 1."""

    name: str
    rows: int


TAKEN = ("probabilities", "log-probabilities")  # what a loss may be of that a model is checked for


@dataclass(frozen=True, slots=True)
class Facts:
    """What `DescribeLoss` finds out.

    `loss_weights` is the name of the target that weighs the mean of the loss. `loss_takes` says of
    what the loss is, such as "probabilities".
    """

    class_ids: tuple[ClassIds, ...] = ()
    row_ids: tuple[RowIds, ...] = ()
    compares_classes: bool = False
    loss_weights: str | None = None
    loss_takes: str | None = None

    @staticmethod
    def of(mod: IRModule) -> "Facts":
        """Those that a module states."""
        attrs = mod.attrs
        return Facts(
            read(ClassIds, attrs.get(CLASS_IDS)),
            read(RowIds, attrs.get(ROW_IDS)),
            bool(attrs.get(COMPARES_CLASSES, False)),
            attrs.get(LOSS_WEIGHTS),
            attrs.get(LOSS_TAKES),
        )

    def attrs(self) -> dict[str, Any]:
        """The attributes that state them; there is none for what is not so."""
        stated = {
            CLASS_IDS: written(self.class_ids),
            ROW_IDS: written(self.row_ids),
            COMPARES_CLASSES: self.compares_classes,
            LOSS_WEIGHTS: self.loss_weights,
            LOSS_TAKES: self.loss_takes,
        }
        return {name: value for name, value in stated.items() if value}
