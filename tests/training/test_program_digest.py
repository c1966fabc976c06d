"""What processes tell each other of the program that they are to train."""

from typing import Any

import numpy as np
import pytest
from small_models import classifier

from relaxjax.ir import Constant, printer
from relaxjax.optim import MomentumSGD
from relaxjax.trainable.names import OPTIM_STATE
from relaxjax.training.placement import digest_of


def test_a_program_is_told_by_its_first_state_too_which_is_not_written_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has as many numbers as the parameters have, or more."""
    written: list[Any] = []
    monkeypatch.setattr(printer, "write_tensors", written.append)
    trainer = classifier(MomentumSGD(0.1, 0.9))
    zeros, ones = (
        tuple(Constant(made((64, 64), "float32")) for _ in range(2)) for made in (np.zeros, np.ones)
    )
    told = [digest_of(trainer.mod.with_attr(OPTIM_STATE, state)) for state in (zeros, zeros, ones)]
    assert told[0] == told[1] != told[2]
    assert digest_of(classifier(MomentumSGD(0.2, 0.9)).mod) != digest_of(trainer.mod)
    assert not written
