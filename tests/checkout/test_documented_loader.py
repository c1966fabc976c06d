"""The program that docs/export.md gives to those who have no relaxjax runs what was exported."""

import re
from pathlib import Path

import chex
import numpy as np
from small_models import Classifier, trainable
from written_programs import run_alone

from relaxjax import TensorType, build, export
from relaxjax.losses import CrossEntropyLoss
from relaxjax.optim import Adam

RUN = """
import numpy as np
LOADER
with np.load("in.npz") as file:
    arrays = dict(file)
params = tuple(arrays[f"p{i}"] for i in range(4))
states = tuple(arrays[f"s{i}"] for i in range(11))
module = load("module.zip")
loss, gradients = module["backbone_loss_adjoint"](arrays["x"], *params, arrays["y"])
params, states = module["optimizer"](params, gradients, states)
single = load("single.jax_export")
np.savez("out.npz", loss=loss, single=single(arrays["x"], *params), steps=states[0], w=params[0])
assert "relaxjax" not in sys.modules
"""


def documented_loader() -> str:
    """The program that docs/export.md gives to those who have no relaxjax."""
    page = Path(__file__).parents[2] / "docs" / "export.md"
    found = re.search(r"```python\n(import zipfile\n.*?)```", page.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def test_a_training_step_runs_where_there_is_no_relaxjax(tmp_path: Path) -> None:
    """The optimizer counts its steps in int64, which JAX has switched off there."""
    scores, labels = TensorType((8, 3), "float32"), TensorType((8,), "int32")
    mod = trainable(Classifier, CrossEntropyLoss(), Adam(0.01), scores, labels)
    export(mod, tmp_path / "module.zip", platforms=["cpu"])
    export(mod, tmp_path / "single.jax_export", "backbone", platforms=["cpu"])
    random = np.random.default_rng(0)
    adjoint = mod["backbone_loss_adjoint"]
    x, *params = (
        random.normal(size=param.ty.dims).astype("float32") for param in adjoint.params[:5]
    )
    y = random.integers(0, 3, 8).astype("int32")
    states = tuple(np.asarray(item.data) for item in mod.attrs["optim_state"])
    named = {f"p{i}": item for i, item in enumerate(params)}
    named |= {f"s{i}": item for i, item in enumerate(states)}
    np.savez(tmp_path / "in.npz", x=x, y=y, **named)
    run_alone(RUN.replace("LOADER", documented_loader()), tmp_path)

    executable = build(mod)
    loss, gradients = executable["backbone_loss_adjoint"](x, *params, y)
    new_params, new_states = executable["optimizer"](tuple(params), gradients, states)
    with np.load(tmp_path / "out.npz") as found:
        assert found["steps"].dtype == "int64"
        assert int(found["steps"]) == int(new_states[0]) == 1
        chex.assert_trees_all_close(found["loss"], np.asarray(loss), rtol=1e-6)
        chex.assert_trees_all_close(found["w"], np.asarray(new_params[0]), rtol=1e-5)
        expected = executable["backbone"](x, *new_params)
        chex.assert_trees_all_close(found["single"], np.asarray(expected), rtol=1e-5, atol=1e-6)
