"""TVM's Trainer for benchmarks/training.py; it runs under the interpreter that has TVM.

    python tvm_trainer.py QUESTION.npz

It makes the trainer and says `ready`; then, for each line that it reads, it makes an epoch of steps
and says their mean loss.
"""

import importlib
import sys
from typing import Any

import numpy as np


def trainer_of(tvm: Any, asked: Any) -> Any:
    relax = tvm.relax
    losses = importlib.import_module("tvm.relax.training.loss")
    optimizers = importlib.import_module("tvm.relax.training.optimizer")
    training = importlib.import_module("tvm.relax.training")
    types = [
        relax.TensorType(asked["scores"].tolist(), "float32"),
        relax.TensorType(asked["labels"].tolist(), "int32"),
    ]
    optimizer = eval(str(asked["optimizer"]), vars(optimizers))
    setup = training.SetupTrainer(
        losses.CrossEntropyLoss(str(asked["reduction"])), optimizer, types
    )
    mod = setup(tvm.script.from_source(str(asked["script"])))
    vm = relax.VirtualMachine(tvm.compile(mod, "llvm"), tvm.cpu())
    trainer = training.Trainer(mod, vm, tvm.cpu(), False)
    trainer.load_params([asked[name] for name in asked if name.startswith("param_")])
    return trainer


def main(path: str) -> None:
    asked = dict(np.load(path))
    trainer = trainer_of(importlib.import_module("tvm"), asked)
    batches = list(zip(asked["inputs"], asked["targets"], strict=True))
    print("ready", flush=True)
    for _ in sys.stdin:
        losses = [trainer.update(x, labels) for x, labels in batches]
        print(float(np.mean([loss.numpy() for loss in losses])), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
