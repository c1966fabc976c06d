"""Who trains the suite's models: plain JAX with optax, and relaxjax with this or that pass.

A contestant is an adjoint, `(*params, *inputs) -> (loss, gradients)`, and an update. A new one is a
line of CONTESTANTS.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from models import ADJOINT, prepared
from models.convnets import ChannelsLast
from models.stepped import RATE, UPDATE, adam, adam_update, training
from models.stored import Stored, stored
from safetensors.numpy import load_file
from surroundings import temp_bytes
from whole_model import WholeModel, type_of

import relaxjax
from relaxjax.ir.module import IRModule
from relaxjax.lowering import to_jax
from relaxjax.trainable.names import TRAIN_STEP
from relaxjax.training import Trainer

FIRST_MOMENT = 0.1  # Adam's first mean of a gradient g is 0.1 g

Adjoint = Callable[..., Any]


@dataclass(frozen=True)
class Update:
    """A rule `(params, state, gradients) -> (params, state)` and where its means are."""

    step: Callable[[Any, Any, Any], Any]
    state: Any
    means: Callable[[Any], Any]  # out of a state


@dataclass(frozen=True)
class Contestant:
    adjoint: Callable[[WholeModel], Adjoint]
    update: Callable[[Any], Update]
    is_plain: bool = False  # takes a model's arrays as its plain form does
    is_apart: bool = False  # two calls a step, and no memory handed over
    is_stored: bool = False  # equal layers as a loop over stacks, kernels as a step reads them
    has_trainer: bool = False  # the loss and the update in a Trainer


class OurAdjoint:
    """The adjoint of a module, of so many parameters, and the step with Adam that it is part of."""

    def __init__(self, mod: IRModule, params: int) -> None:
        self.mod, self.params = mod, params
        self.run = to_jax(mod, ADJOINT)

    def __call__(self, *args: Any) -> Any:
        result, gradients = self.run(*args)
        return (result[0] if isinstance(result, tuple) else result), gradients

    def step(self) -> Callable[[Any, Any, Any], Any]:
        """As SetupTrainer makes it: with updates in loops, and the loss in front."""
        run = to_jax(training(self.mod, ADJOINT, self.params), TRAIN_STEP)

        def step(params: Any, state: Any, inputs: Any) -> Any:
            result, new, _, state = run(params, (), state, *inputs)
            return new, state, result[0] if isinstance(result, tuple) else result

        return step


def plain_loss(model: WholeModel) -> Callable[..., Any]:
    """That of a model's plain form, `(params, *inputs) -> loss`."""

    def loss(params: Any, *inputs: Any) -> Any:
        result = model.plain(*params, *inputs)
        return result[0] if isinstance(result, tuple) else result

    return loss


def plain_adjoint(model: WholeModel, gradients: Callable[..., Any], change: Any = None) -> Adjoint:
    """Of the loss of a model's plain form, which `change` may have changed before."""
    count, loss = len(model.params), plain_loss(model)
    kept = loss if change is None else change(loss)
    return lambda *args: gradients(kept)(args[:count], *args[count:])


def by_jax(policy: Any = None) -> Callable[[WholeModel], Adjoint]:
    """`jax.value_and_grad`, of `jax.checkpoint` where there is a policy."""
    change = None if policy is None else partial(jax.checkpoint, policy=policy)
    return lambda model: plain_adjoint(model, jax.value_and_grad, change)


def imported(model: WholeModel) -> Adjoint:
    """`relaxjax.value_and_grad` of the plain form."""
    return plain_adjoint(model, relaxjax.value_and_grad)


def by_us(**options: Any) -> Callable[[WholeModel], Adjoint]:
    """Our adjoint, `prepared` by these options."""

    return lambda model: OurAdjoint(prepared(model, **options), len(model.params))


def optax_adam(params: Any) -> Update:
    tx = optax.adam(RATE)

    def step(params: Any, state: Any, gradients: Any) -> Any:
        updates, state = tx.update(gradients, state, params)
        return optax.apply_updates(params, updates), state

    return Update(step, tx.init(params), lambda state: state[0].mu)


def our_adam(params: Any) -> Update:
    leaves, tree = jax.tree.flatten(params)
    types = tuple(map(type_of, leaves))
    run = to_jax(IRModule({UPDATE: adam_update(types)}), UPDATE)

    def step(params: Any, state: Any, gradients: Any) -> Any:
        flat = (tuple(jax.tree.leaves(values)) for values in (params, gradients))
        new, state = run(*flat, state)
        return jax.tree.unflatten(tree, new), state

    means = slice(3, 3 + len(leaves))  # the first three count steps
    return Update(step, adam(types).state, lambda state: jax.tree.unflatten(tree, state[means]))


_SAVED = jax.checkpoint_policies

CONTESTANTS: dict[str, Contestant] = {
    "plain": Contestant(by_jax(), optax_adam, is_plain=True),
    "checkpoint": Contestant(by_jax(_SAVED.nothing_saveable), optax_adam, is_plain=True),
    "checkpoint, products": Contestant(by_jax(_SAVED.dots_saveable), optax_adam, is_plain=True),
    "unoptimised": Contestant(by_us(simplify=False), our_adam, is_apart=True),
    "ours": Contestant(by_us(policy="auto"), our_adam, is_stored=True),
    "free": Contestant(by_us(policy="free"), our_adam, is_stored=True),
    "balanced": Contestant(by_us(policy="balanced"), our_adam, is_stored=True),
    "imported": Contestant(imported, optax_adam, is_plain=True),
    "from_jax": Contestant(imported, optax_adam, is_plain=True, has_trainer=True),
}


class Training:
    """A contestant that trains a model: a call is a step, done when it returns.

    `compile_seconds` are those to trace, transform, lower and compile, by the clock and of the CPU.
    Of a step that is one program, `xla_seconds` are the last part of them, of the CPU.
    """

    xla_seconds: float

    def __init__(self, contestant: Contestant, model: WholeModel) -> None:
        adam_update.cache_clear()  # each contestant writes its own
        began = _now()
        model = stored(model) if contestant.is_stored else model
        took = _now() - began
        # Copies: a step takes the memory of its parameters for the new ones.
        self._params, self._inputs = jax.tree.map(jnp.array, arrays_of(model, contestant))
        optax_adam(self._params)  # to copy and to fill arrays is compiled, too, by whoever is first
        began = _now()
        update = contestant.update(self._params)
        self._state = jax.tree.map(jnp.array, update.state)
        adjoint = contestant.adjoint(model)
        compiled = self._apart if contestant.is_apart else self._whole
        self._step, self.temp_bytes, self.peak_bytes = compiled(adjoint, update)
        clock, cpu = took + _now() - began
        self.compile_seconds = float(clock), float(cpu)
        self._means = update.means
        self._apart_of = model.apart if isinstance(model, Stored) else lambda arrays: arrays

    def __call__(self) -> None:
        self._params, self._state, self.loss = self._step(self._params, self._state, self._inputs)
        jax.block_until_ready((self._params, self.loss))

    def gradients(self) -> Any:
        """Those of the first step, after it."""
        means = self._apart_of(self._means(self._state))
        return jax.tree.map(lambda mean: mean / FIRST_MOMENT, means)

    def _whole(self, adjoint: Adjoint, update: Update) -> tuple[Any, int, int]:
        """A step as one program, which changes parameters and state in place."""

        def joined(params: Any, state: Any, inputs: Any) -> Any:
            loss, gradients = adjoint(*params, *inputs)
            return *update.step(params, state, gradients), loss

        step = adjoint.step() if isinstance(adjoint, OurAdjoint) else joined
        given = (self._params, self._state, self._inputs)
        lowered: Any = jax.jit(step, donate_argnums=(0, 1)).lower(*given)
        began = _now()
        program = lowered.compile()
        self.xla_seconds = float((_now() - began)[1])
        memory = program.memory_analysis()
        peak = bytes_of(given) + memory.temp_size_in_bytes
        made = memory.output_size_in_bytes - memory.alias_size_in_bytes
        return program, temp_bytes(program), peak + made

    def _apart(self, adjoint: Adjoint, update: Update) -> tuple[Any, int, int]:
        """The adjoint and the update as programs of their own."""
        first: Any = jax.jit(adjoint).lower(*self._params, *self._inputs).compile()
        _, shapes = jax.eval_shape(adjoint, *self._params, *self._inputs)
        second: Any = jax.jit(update.step).lower(self._params, self._state, shapes).compile()

        def step(params: Any, state: Any, inputs: Any) -> Any:
            loss, gradients = first(*params, *inputs)
            return *second(params, state, gradients), loss

        given, gradients = bytes_of((self._params, self._state, self._inputs)), bytes_of(shapes)
        temps = temp_bytes(first), temp_bytes(second)
        updated = temps[1] + second.memory_analysis().output_size_in_bytes
        return step, max(temps), given + gradients + max(temps[0], updated)


class TrainerOfJax:
    """A `Trainer` of a model's plain loss; what a `Training` has, this has."""

    def __init__(self, contestant: Contestant, model: WholeModel) -> None:
        params, self._inputs = arrays_of(model, contestant)
        optax_adam(params)  # fills arrays, which is compiled for whoever is first
        self._like, loss = params, plain_loss(model)
        began = _now()
        self._trainer = Trainer.from_jax(
            lambda params, inputs: loss(params, *inputs), params, optax.adam(RATE), self._inputs
        )
        self.temp_bytes = self._trainer.temporary_bytes(self._inputs) or 0
        clock, cpu = _now() - began
        self.compile_seconds = float(clock), float(cpu)
        # Adam has two arrays for each parameter, and all results take the memory of what was there.
        self.peak_bytes = bytes_of([params] * 3 + [self._inputs]) + self.temp_bytes

    def __call__(self) -> None:
        self.loss = jax.block_until_ready(self._trainer.update(self._inputs))

    def gradients(self) -> Any:
        """Those of the first step, after it.

        A checkpoint has what Adam keeps: the number of steps, and then the means.
        """
        with TemporaryDirectory() as folder:
            path = Path(folder) / "trainer.safetensors"
            self._trainer.save(path)
            found = load_file(path)
        leaves, tree = jax.tree.flatten(self._like)
        means = [found[f"optimizer/{1 + i}"] for i in range(len(leaves))]
        return jax.tree.unflatten(tree, [mean / FIRST_MOMENT for mean in means])


def training_of(name: str, model: WholeModel) -> Training | TrainerOfJax:
    """The contestant of that name, compiled."""
    contestant = CONTESTANTS[name]
    return (TrainerOfJax if contestant.has_trainer else Training)(contestant, model)


def arrays_of(model: WholeModel, contestant: Contestant) -> tuple[Any, Any]:
    """The parameters and the inputs as that contestant takes them."""
    if isinstance(model, ChannelsLast) and contestant.is_plain:
        return model.to_plain(model.params), tuple(model.plain_inputs())
    return model.params, tuple(model.inputs)


def _now() -> Any:
    """The seconds of the clock and of the CPU."""
    return np.array([time.perf_counter(), time.process_time()])


def bytes_of(arrays: Any) -> int:
    return sum(a.size * a.dtype.itemsize for a in jax.tree.leaves(arrays))
