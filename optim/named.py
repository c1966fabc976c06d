"""Optimizers of optax under the names that people know: each is one line, its formula optax's."""

from collections.abc import Callable
from typing import Any

from .from_optax import OptaxOptimizer, from_optax
from .hyperparameters import check_known, check_names, check_rate


def _named(name: str, path: str) -> Callable[..., OptaxOptimizer]:
    """A function that makes the optimizer at `path` of optax; its options are optax's."""

    def make(lr: Any, **options: Any) -> OptaxOptimizer:
        import optax

        check_rate(name, lr)
        check_known(name, {"lr": lr, **options})
        found: Any = optax
        for part in path.split("."):
            found = getattr(found, part)
        check_names(name, f"optax.{path}", found, options)
        return from_optax(found(lr, **options), name)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = (
        f"optax.{path}: `lr` is a number or a schedule of optax's, the options are optax's too."
    )
    return make


AdamW = _named("AdamW", "adamw")
AdaBelief = _named("AdaBelief", "adabelief")
Adadelta = _named("Adadelta", "adadelta")
Adafactor = _named("Adafactor", "adafactor")
Adagrad = _named("Adagrad", "adagrad")
Adamax = _named("Adamax", "adamax")
AMSGrad = _named("AMSGrad", "amsgrad")
LAMB = _named("LAMB", "lamb")
LARS = _named("LARS", "lars")
Lion = _named("Lion", "lion")
Muon = _named("Muon", "contrib.muon")
NAdam = _named("NAdam", "nadam")
NAdamW = _named("NAdamW", "nadamw")
RAdam = _named("RAdam", "radam")
RMSProp = _named("RMSProp", "rmsprop")
Rprop = _named("Rprop", "rprop")
ScheduleFreeAdamW = _named("ScheduleFreeAdamW", "contrib.schedule_free_adamw")
Yogi = _named("Yogi", "yogi")
