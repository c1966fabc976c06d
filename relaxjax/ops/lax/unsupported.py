"""What a JAX program may not hold, and what to do about it."""

from typing import Any

# What jax.debug.print and jax.debug.callback do.
REPORTS = ("debug_print", "debug_callback")
# What to do about a reference that a function has not made itself.
OF_REFERENCES = (
    ". Hand in what it holds as an argument, and give what it is to hold beside the result, "
    "with `has_aux=True`"
)
# What to do about primitives that name devices, or print.
_INSTEAD = {
    "device_put": ". Put arrays on devices outside of what is read",
    "shard_map": ". Take the gradient inside the function that jax.shard_map maps",
    "sharding_constraint": ". Constrain by a jax.sharding.NamedSharding that has no explicit axes "
    "and names no memory",
    "pure_callback": ". Call it before, and hand in its result as an argument",
    **dict.fromkeys(
        ("new_ref", "empty_ref"),
        ". Compute new arrays instead, as `x.at[places].set(values)` does",
    ),
    **dict.fromkeys(("get", "swap", "addupdate"), OF_REFERENCES),
    "check": ". Check inside of the loss, by jax.experimental.checkify.checkify(loss), and return "
    "its errors beside the loss, with `has_aux=True`",
    "custom_vmap_call": ". Its rule is for what jax.vmap maps: take the gradient inside of that, "
    "or call the function without the rule, which is its attribute `fun`",
    "compute_on": ". Leave out `jax.experimental.compute_on`, or call it before, and hand in what "
    "it gives as an argument",
    "call_hi_primitive": ". Hand its arrays from function to function, not a value made of them",
    "call_exported": ". Call the function that was exported, or hand in what the program gives as "
    "an argument",
    "noinline": ". Call the function without equinox.internal.noinline, or let it be no argument "
    "of what is traced",
    "io_callback": ". Call it before or behind, and hand in what it gives as an argument",
    **dict.fromkeys(
        REPORTS,
        ". relaxjax.value_and_grad prints what stands in a loss outside of loops, of branches and "
        "of functions with rules: make it a result of these, and print it behind them",
    ),
}
# What to do about those that combine what several devices have.
_BEHIND = ". Combine the results and gradients of relaxjax.value_and_grad, inside of what is mapped"


class UnsupportedPrimitiveError(NotImplementedError):
    """A JAX program uses a primitive that has no form in the IR."""


def has_effects(eqn: Any) -> UnsupportedPrimitiveError:
    """The error about an equation that does something beside giving its results."""
    name = eqn.primitive.name
    effects = ", ".join(map(_effect, eqn.effects))
    of_axes = all(type(effect).__name__ == "NamedAxisEffect" for effect in eqn.effects)
    instead = _INSTEAD.get(name, _BEHIND if of_axes else ": take it out of the function")
    return UnsupportedPrimitiveError(
        f"the JAX primitive `{name}` has side effects ({effects}), "
        f"which the IR cannot hold{instead}"
    )


def _effect(effect: Any) -> str:
    """An effect as far as it says what it is in words."""
    text = str(effect)
    return type(effect).__name__ if "<" in text else text


def without_form(eqn: Any, error: Exception | str) -> UnsupportedPrimitiveError:
    """The error about an equation with a parameter that cannot be written down."""
    name = eqn.primitive.name
    return UnsupportedPrimitiveError(
        f"the JAX primitive `{name}` has no form in the IR: {error}{_INSTEAD.get(name, '')}"
    )
