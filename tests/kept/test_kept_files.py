"""Files of earlier releases are read, run and trained on: as docs/compatibility.md promises."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import batch, classifier

from relaxjax import to_jax
from relaxjax.optim import Adam
from relaxjax.script import load_archive
from relaxjax.training import Checkpoints, Lines, load_trainer

RELEASES = sorted(path for path in Path(__file__).parent.iterdir() if path.name[0].isdigit())


@pytest.fixture(params=RELEASES, ids=lambda path: str(path.name))
def release(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.param
    return folder


def results(release: Path) -> dict[str, Any]:
    with np.load(release / "results.npz") as file:
        return dict(file)


def test_there_are_files() -> None:
    assert "0.1.0" in [path.name for path in RELEASES]


def test_an_archive_runs(release: Path) -> None:
    mod, params = load_archive(release / "archive.safetensors")
    kept = results(release)
    ordered = [params[name] for name in ("w0", "b0", "w1", "b1")]
    scores = to_jax(mod, "backbone")(kept["x"], *ordered)
    np.testing.assert_allclose(scores, kept["scores"], rtol=1e-5, atol=1e-6)


def test_a_saved_trainer_predicts_and_trains(release: Path) -> None:
    trainer, kept = load_trainer(release / "trainer.safetensors"), results(release)
    np.testing.assert_allclose(trainer.predict(kept["x"]), kept["scores"], rtol=1e-5, atol=1e-6)
    loss = float(trainer.update(kept["x"], kept["y"]))
    assert loss == pytest.approx(float(kept["loss"]), rel=1e-5)
    assert float(trainer.update(kept["x"], kept["y"])) < loss


def test_a_training_is_resumed(release: Path, tmp_path: Path) -> None:
    shutil.copytree(release / "training", tmp_path / "training")
    trainer, quiet = classifier(Adam(0.01)), Lines(lambda line: None)
    reports = trainer.fit(
        [batch(0), batch(1)], 2, None, quiet,
        checkpoints=Checkpoints(tmp_path / "training"), resume=True,
    )  # fmt: skip
    assert [report.epoch for report in reports] == [1, 2]
    assert reports[1].loss < reports[0].loss
