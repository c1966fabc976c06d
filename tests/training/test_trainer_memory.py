"""Where the bytes of a trainer's step go: by the lines of its model, or of its loss in JAX."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_models import trainer_of

from relaxjax import IRModule, MemoryReport, Trainer, from_source
from relaxjax.cli import main
from relaxjax.losses import MSELoss
from relaxjax.optim import Adam
from relaxjax.passes import MemoryPlanError
from relaxjax.training import load_trainer

pytestmark = pytest.mark.usefixtures("quickly_compiled")

MODEL = """
@R.function
def backbone(x: R.Tensor((N, 32), "float32"), w: R.Tensor((32, 32), "float32")):
    with R.dataflow():
        a = R.nn.gelu(R.matmul(x, w))
        b = R.nn.gelu(R.matmul(a, w))
        c = R.nn.gelu(R.matmul(b, w))
        d = R.nn.gelu(R.matmul(c, w))
        out = R.matmul(d, w)
        R.output(out)
    return out
"""
X = np.ones((256, 32), "float32")


def of_relax(size: str = "256", **options: Any) -> Trainer:
    backbone: Any = from_source(MODEL.replace("N", size), file="model.py")
    mod = IRModule({"backbone": backbone}, attrs={"param_num": 1, "state_num": 0})
    target = backbone.ret_ty
    return trainer_of(mod, MSELoss(), Adam(1e-3), target, target, **options)


def of_jax(**options: Any) -> Trainer:
    def loss(w: Any, batch: Any) -> Any:
        hidden = batch
        for _ in range(4):
            hidden = jax.nn.gelu(hidden @ w)
        return jnp.mean((hidden @ w - batch) ** 2)

    return Trainer.from_jax(loss, jnp.eye(32), optax.adam(1e-3), X, **options)


def lines_of(report: MemoryReport) -> set[tuple[str, int]]:
    return {(Path(row.span.file).name, row.span.line) for row in report.rows if row.span}


def test_the_step_of_a_model_in_relax() -> None:
    kept, planned = (of_relax(memory_policy=policy).memory() for policy in ("none", "balanced"))
    assert kept.recomputed == ()
    assert planned.recomputed
    assert planned.kept
    assert {("model.py", 5), ("model.py", 6)} <= lines_of(planned) == lines_of(kept)
    # The form of the step that is planned may order gradients better, with everything kept, too.
    assert planned.peak < planned.peak_of_all_kept <= kept.peak
    assert planned.extra_flops > 0 == kept.extra_flops
    assert "computed again" in str(planned)


def test_a_budget_is_that_of_the_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trainer = of_relax(memory_budget="80%")
    report, taken = trainer.memory(), trainer.temporary_bytes(X, X)
    assert taken is not None
    assert report.budget is not None
    assert taken <= report.budget < report.bytes_by_xla_of_all_kept
    assert report.bytes_by_xla == pytest.approx(taken, rel=0.05)
    trainer.save(tmp_path / "model.safetensors")
    found = load_trainer(tmp_path / "model.safetensors").memory()
    assert found.budget == report.budget
    assert [(r.bytes, r.kept) for r in found.rows] == [(r.bytes, r.kept) for r in report.rows]
    assert main(["memory", str(tmp_path / "model.safetensors")]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == str(report).splitlines()[:2]


def test_the_step_of_a_loss_in_jax() -> None:
    kept, planned = (of_jax(memory_policy=policy).memory() for policy in ("none", "balanced"))
    assert planned.recomputed
    assert kept.recomputed == ()
    assert {file for file, _ in lines_of(planned)} == {Path(__file__).name}
    assert planned.peak < planned.peak_of_all_kept
    assert sum(planned.at_peak.values()) == planned.peak


def test_a_model_of_any_batch_size_is_asked_for_one() -> None:
    with pytest.raises(MemoryPlanError, match="as by BindSymbolicVars"):
        of_relax('"n"').memory()


def test_jax_is_not_known_of_a_module() -> None:
    with pytest.raises(ValueError, match="is a function in Relax, which JAX's derivative is not"):
        of_relax().memory().compared_with_jax()
