"""Facts and places as attributes of a module, and those that older files hold."""

from pathlib import Path

import numpy as np
import pytest
from parsing import parse_module

from relaxjax import IRModule, VirtualMachine, build
from relaxjax.script import load_archive
from relaxjax.trainable.facts import ClassIds, Facts, RowIds
from relaxjax.trainable.names import ADJOINT
from relaxjax.trainable.storage import Place, Storage, params_of, states_of
from relaxjax.training import Trainer, load_trainer

# What the version before mappings wrote: rolled layers, a stored kernel, class ids, row ids, and a
# loss that is scaled. The lists of values in the attributes have no names.
OLD = Path(__file__).parent / "old_files"
FACTS = Facts((ClassIds("targets", 3, 2, True),), (RowIds("ids", 6),), True)
PLACES = (Place(0), Place(1, order=(2, 3, 1, 0)), *(Place(2, row) for row in range(3)), Place(3))
NAMES = ["table", "kernel", "w0", "w1", "w2", "head"]
IDS = np.array([1, 4], "int32")
IMAGES = np.linspace(-1, 1, 800, dtype="float32").reshape(2, 16, 5, 5)
TARGETS = np.array([0, 2], "int32")
SCORES = [[7.5513854, -6.4389844, 0.68065786], [-0.33540297, 0.9085065, -0.37517142]]


def test_an_archive_with_positional_lists_says_the_same() -> None:
    mod, _ = load_archive(OLD / "positional_archive.safetensors")
    assert mod.attrs["class_ids"] == (("targets", 3, 2, True),)
    assert Facts.of(mod) == FACTS
    own, storage = params_of(mod, mod[ADJOINT].params[2:6])
    assert ([var.name for var in own], storage) == (NAMES, Storage(PLACES))
    kernel, row = own[1].ty, own[2].ty
    assert str(kernel) == 'R.Tensor((16, 16, 3, 3), dtype="float32")'
    assert str(row) == 'R.Tensor((16, 16), dtype="float32")'
    momenta = (Place(4 + place.array, place.row, place.order) for place in PLACES)
    states, storage = states_of(mod)
    assert storage == Storage((*map(Place, range(4)), *momenta))
    assert [str(state.ty) for state in states[4:]] == [str(param.ty) for param in own]


def test_a_checkpoint_with_positional_lists_goes_on() -> None:
    trainer = load_trainer(OLD / "positional.safetensors")
    assert trainer.loss_scale == 2**15
    loss = trainer.update([IDS, IMAGES], TARGETS)
    assert float(loss) == pytest.approx(0.06646729, rel=1e-4)
    np.testing.assert_allclose(trainer.predict(IDS, IMAGES), SCORES, rtol=1e-3)
    with pytest.raises(ValueError, match="picks one of 6 rows, 0 to 5, by each id in `ids`"):
        trainer.update([IDS + 4, IMAGES], TARGETS)
    with pytest.raises(ValueError, match="scores 3 classes, 0 to 2, but the target `targets`"):
        trainer.update([IDS, IMAGES], TARGETS + 3)
    with pytest.raises(ValueError, match="all of `targets` is 2, which counts for nothing"):
        trainer.update([IDS, IMAGES], np.full(2, 2, "int32"))


def test_a_trainer_of_an_old_archive_loads_the_old_checkpoint() -> None:
    mod, _ = load_archive(OLD / "positional_archive.safetensors")
    trainer = Trainer(mod, VirtualMachine(build(mod)))
    trainer.load(OLD / "positional.safetensors")
    assert list(trainer.export_params()) == NAMES
    assert trainer.export_params()["kernel"].shape == (16, 16, 3, 3)


def test_facts_are_attributes_that_read_back() -> None:
    mod = IRModule({}, attrs=FACTS.attrs())
    assert Facts.of(mod) == FACTS
    again = parse_module(mod.script())
    assert Facts.of(again) == FACTS
    assert Facts().attrs() == {}
    assert Facts.of(IRModule({})) == Facts()
