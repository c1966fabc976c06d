"""Write the files of this version that later versions must read, into a folder of its name.

python tests/kept/write.py
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

KEPT = Path(__file__).parent
sys.path.append(str(KEPT.parent / "support"))

from small_models import Classifier, batch, classifier  # noqa: E402  # found by the path above

import relaxjax  # noqa: E402
from relaxjax.optim import Adam  # noqa: E402
from relaxjax.script import save_archive  # noqa: E402
from relaxjax.training import Checkpoints, Lines  # noqa: E402

# A class to mypy.
Model: Any = Classifier


def write(folder: Path) -> None:
    """An archive, a saved trainer, a training with a checkpoint, and what they are to give."""
    folder.mkdir()
    trainer = classifier(Adam(0.01))
    data = [batch(0), batch(1)]
    checkpoints = Checkpoints(folder / "training", keep=1)
    trainer.fit(data, 1, reporter=Lines(lambda line: None), checkpoints=checkpoints)
    trainer.save(folder / "trainer.safetensors")
    save_archive(Model, folder / "archive.safetensors", trainer.export_params())
    x, y = batch(2)
    scores = np.asarray(trainer.predict(x))
    np.savez(folder / "results.npz", x=x, y=y, scores=scores, loss=trainer.update(x, y))


if __name__ == "__main__":
    write(KEPT / relaxjax.__version__)
