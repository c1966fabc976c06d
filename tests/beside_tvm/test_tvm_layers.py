"""Models by layers: the programs that TVM exports, and ours.

TVM is asked in a process of its own, by the interpreter that `RELAXJAX_TVM_PYTHON` names.
"""

from pathlib import Path

import layer_models
import pytest
from asking_tvm import asked_of_tvm

from relaxjax.ir.structural import assert_structural_equal
from relaxjax.script import from_source
from relaxjax.tvm.relax.frontend import nn

NAMES = [*layer_models.CALLS, *layer_models.LAYERED]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    program = Path(layer_models.__file__)
    answers: dict[str, str] = asked_of_tvm(
        tmp_path_factory.mktemp("layers"), program, lambda: NAMES
    )
    return answers


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_exported_as_by_tvm(name: str, theirs: dict[str, str]) -> None:
    assert_structural_equal(layer_models.exported(nn, name), from_source(theirs[name]))
