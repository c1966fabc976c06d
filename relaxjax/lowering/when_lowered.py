"""What is decided when JAX lowers a program, because only then it says for which platform.

    for_each_platform(make, "cpu")(*arrays)   # the program make("cpu"), another one elsewhere
    only_for("cpu", program)(*arrays)         # an error elsewhere

On its own platform each costs nothing: JAX takes the other programs out before XLA sees them.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import jax
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from relaxjax.ops.nn.accelerated_attention import is_written_out
from relaxjax.ops.platform import known_platform, lowering_for, platform_name

from .interpreter import LoweringError
from .target import agree, disagreement

Program = Callable[..., Any]
# Makes the program for a platform.
Maker = Callable[[str], Program]

_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
# What stands for all platforms that have no program of their own, and whose compiler is none.
ANOTHER_PLATFORM = "another platform"


def for_each_platform(make: Maker, own: str) -> Program:
    """The program for the platform that JAX lowers for.

    That for its `own` platform is traced as it is called, and JAX sees what is in it. The others
    are made when JAX lowers for them, if ever: `make` must hold nothing that is traced. They give
    results of the same types.
    """

    def run(*arrays: Any) -> Any:
        leaves, tree = jax.tree.flatten(arrays)
        known = known_platform(leaves)
        if known is not None:  # nothing is traced, so this is where it runs
            return only_for(known, make(known))(*arrays)
        results: list[Any] = []

        def here(*leaves: Any) -> list[Any]:
            found, results_tree = jax.tree.flatten(make(own)(*jax.tree.unflatten(tree, leaves)))
            results[:] = [results_tree, tuple(map(jax.typeof, found))]
            return found

        def there(platform: str, *leaves: Any) -> list[Any]:
            def program(*leaves: Any) -> list[Any]:
                return jax.tree.leaves(make(platform)(*jax.tree.unflatten(tree, leaves)))

            return list(_made_late.bind(*leaves, program=program, avals=results[1]))

        # What is written out has all of these in it: so many as there are to tell apart.
        names = ("cpu",) if is_written_out() else _PLATFORMS
        others = {name: partial(there, name) for name in names if name != own}
        found = lax.platform_dependent(
            *leaves, **{own: here}, **others, default=partial(there, ANOTHER_PLATFORM)
        )
        return jax.tree.unflatten(results[0], found)

    return run


def only_for(platform: str | None, program: Program) -> Program:
    """A program that is made for one platform, or none: to lower it for another is an error."""
    if platform is None:
        return program

    def run(*args: Any) -> Any:
        with lowering_for(platform):
            found, tree = jax.tree.flatten(program(*args))
        place = next((i for i, leaf in enumerate(found) if isinstance(leaf, jax.Array)), None)
        if place is not None:
            found[place] = _only_on.bind(found[place], platform=platform)
        return jax.tree.unflatten(tree, found)

    return run


_made_late = Primitive("made_when_lowered")
_made_late.multiple_results = True
_only_on = Primitive("only_on_platform")


def _declared(*_: Any, program: Program, avals: Sequence[Any]) -> Sequence[Any]:
    return avals


def _run_late(*args: Any, program: Program, avals: Sequence[Any]) -> Any:
    return jax.jit(program)(*args)


def _lower_late(ctx: Any, *args: Any, program: Program, avals: Sequence[Any]) -> Any:
    module = ctx.module_context
    if hasattr(module, "all_default_mem_kind"):  # which JAX has asked of what it could see
        ctx = ctx.replace(module_context=module.replace(all_default_mem_kind=False))
    return mlir.lower_fun(program, multiple_results=True)(ctx, *args)


def _batch_late(
    args: Sequence[Any], dims: Sequence[int | None], *, program: Program, avals: Sequence[Any]
) -> Any:
    size = next(x.shape[dim] for x, dim in zip(args, dims, strict=True) if dim is not None)
    many = tuple(aval.update(shape=(size, *aval.shape), sharding=None) for aval in avals)
    found = _made_late.bind(*args, program=jax.vmap(program, tuple(dims)), avals=many)
    return found, [0] * len(avals)


_made_late.def_impl(_run_late)
_made_late.def_abstract_eval(_declared)
mlir.register_lowering(_made_late, _lower_late)
batching.primitive_batchers[_made_late] = _batch_late


def _same(x: Any, *, platform: str) -> Any:
    return x


def _run_there(x: Any, *, platform: str) -> Any:
    _check(platform, map(platform_name, x.devices()))
    return x


def _lower_there(ctx: Any, x: Any, *, platform: str) -> Any:
    _check(platform, ctx.platforms or ctx.module_context.platforms)
    return [x]


def _check(platform: str, found: Iterable[str]) -> None:
    for other in found:
        if not agree(platform, other):
            raise LoweringError(disagreement(platform, other))


_only_on.def_impl(_run_there)
_only_on.def_abstract_eval(_same)
mlir.register_lowering(_only_on, _lower_there)
ad.deflinear2(_only_on, lambda g, x, platform: [_only_on.bind(g, platform=platform)])
batching.defvectorized(_only_on)
