"""Jaxprs inside jaxprs: which equations only wrap a program, and which a result depends on."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache, partial
from itertools import compress
from operator import or_
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.extend import core

from relaxjax.ops import once, refused

from .avals import x64_beside
from .cudnn_attention import CUDNN_ATTENTION, attention_written_out, is_of_cudnn
from .folds import fold_written_out
from .parameters import UnsupportedParameterError, encode_params
from .symbols import JaxSymbols
from .unsupported import without_form
from .windows import windows_reduced

Program: TypeAlias = tuple[Any, Sequence[Any]]  # a jaxpr, and the values of its constvars
Keeps: TypeAlias = Callable[[Any], bool]  # whether the results of an equation are kept

# The primitives that only wrap a program, and where it may be.
_WRAPPERS = frozenset(
    {
        "jit",
        "pjit",
        "closed_call",
        "core_call",
        "eval_jaxpr",
        "remat",
        "remat2",
        "checkpoint",
        "custom_jvp_call",
        "custom_vjp_call",
        "linear_call",
        # The forward half of a rule by jax.custom_vjp with `optimize_remat`.
        "remat_opt",
        # What newer JAX has for marks that say how a program is to be compiled, not what it gives.
        "xla_metadata_call",
        "program_order",
        # A platform may have a form of its own for it, of the same meaning.
        "composite",
    }
)
_PROGRAMS = ("jaxpr", "call_jaxpr", "callee", "fwd_jaxpr")

# What newer JAX has in the place of some functions with rules: it says what it stands for, and what
# its derivative is. Some are operators here.
HI_PRIMITIVE = "call_hi_primitive"
_HI_OPERATORS = {"Frexp": "frexp", "Ldexp": "ldexp"}

# The primitives of functions with a derivative that what they wrap does not tell, and who gave it.
RULES_BESIDE_BODIES = {
    "custom_jvp_call": "jax.custom_jvp",
    "custom_vjp_call": "jax.custom_vjp",
    "custom_linear_solve": "jax.lax.custom_linear_solve",
    "linear_call": "jax.custom_derivatives.linear_call",
    HI_PRIMITIVE: "JAX itself",
}
# The primitive that stands for a program of ours until JAX says for which platform it is.
MADE_LATE = "made_when_lowered"

# Where functions with tangents of their own stand that programs are read with as they are.
_KNOWN = (
    f" at {os.path.dirname(jax.__file__)}{os.sep}",
    *(f" at {ours.__file__}:" for ours in (once, refused)),
)


def open_program(closed: Any) -> Program:
    """A jaxpr, closed or open, with its constants."""
    return getattr(closed, "jaxpr", closed), getattr(closed, "consts", ())


def inlined(eqn: Any) -> tuple[Program, Sequence[Any]] | None:
    """The program that an equation wraps, and the operands it runs on; None where it wraps none."""
    name = eqn.primitive.name
    if name in _WRAPPERS:
        program = next(eqn.params[key] for key in _PROGRAMS if key in eqn.params)
        return open_program(program), eqn.invars
    if name == "custom_linear_solve":
        return _linear_solve(eqn)
    if name == CUDNN_ATTENTION:
        return open_program(attention_written_out(eqn)), eqn.invars
    if name == "reduce_window" or (name == "reduce" and _folds_by_rule(eqn)):
        return open_program(_written_once(eqn)), eqn.invars
    if name == HI_PRIMITIVE or is_from_outside(eqn):
        return open_program(standing_for(eqn)), eqn.invars
    return None


@lru_cache(maxsize=4096)
def _written_once(eqn: Any) -> core.ClosedJaxpr:
    """The same program each time, all on the line of the equation.

    What moves in it is known of its very equations.
    """
    written = windows_reduced if eqn.primitive.name == "reduce_window" else fold_written_out
    with x64_of(eqn):
        program = written(eqn)
    eqns = [one.replace(source_info=eqn.source_info) for one in program.jaxpr.eqns]
    return core.ClosedJaxpr(program.jaxpr.replace(eqns=eqns), program.consts)


def _folds_by_rule(eqn: Any) -> bool:
    """Whether a fold of known length calls functions that have derivatives of their own.

    They have them for scalars: as a tree, it calls them on arrays.
    """
    shape = eqn.invars[0].aval.shape
    known = all(isinstance(shape[axis], int) for axis in eqn.params["dimensions"])
    return known and _calls_rules(eqn.params["jaxpr"])


def _calls_rules(program: Any) -> bool:
    jaxpr, _ = open_program(program)
    return any(
        has_own_rule(eqn) or any(map(_calls_rules, programs_inside(eqn))) for eqn in jaxpr.eqns
    )


def programs_inside(eqn: Any) -> Iterator[Any]:
    """The jaxprs among the parameters of an equation, closed or open."""
    for value in eqn.params.values():
        for part in value if isinstance(value, tuple) else [value]:
            if hasattr(open_program(part)[0], "eqns"):
                yield part


def _linear_solve(eqn: Any) -> tuple[Program, Sequence[Any]]:
    """The solving program: the others are there only to differentiate by."""
    return open_program(eqn.params["jaxprs"].solve), _to_solve_with(eqn, eqn.invars)


def _to_solve_with(eqn: Any, operands: Sequence[Any]) -> list[Any]:
    """Those of the operands that the solving program takes: its own, and the right-hand sides."""
    lengths = eqn.params["const_lengths"]
    before = lengths.matvec + lengths.vecmat
    return [*operands[before : before + lengths.solve], *operands[sum(lengths) :]]


def x64_of(eqn: Any) -> AbstractContextManager[Any]:
    """The context in which what an equation runs is traced again, of 64 bits if it is of these."""
    return x64_beside(*(str(var.aval.dtype) for var in (*eqn.invars, *eqn.outvars)))


def standing_for(eqn: Any) -> core.ClosedJaxpr:
    """What an equation with a derivative of its own computes, as a program of all its operands."""
    with x64_of(eqn):
        return _standing_for(eqn)


def _standing_for(eqn: Any) -> core.ClosedJaxpr:
    if eqn.primitive.name in _WRAPPERS:
        closed: core.ClosedJaxpr = next(eqn.params[key] for key in _PROGRAMS if key in eqn.params)
        return closed
    avals = [var.aval for var in eqn.invars]
    if is_from_outside(eqn):
        try:
            program = jax.make_jaxpr(partial(_run_by_itself, eqn))(*avals)
        except jax.errors.ConcretizationTypeError as error:
            (first, *_) = str(error).splitlines()
            raise without_form(eqn, f"a library runs it by itself ({first})") from None
        return _without_marks(program)
    if eqn.primitive.name == HI_PRIMITIVE:
        primitive = eqn.params["_prim"]
        return jax.make_jaxpr(
            lambda *flat: primitive.expand(*jax.tree.unflatten(primitive.in_tree, flat))
        )(*avals)
    solve = core.jaxpr_as_fun(eqn.params["jaxprs"].solve)

    def linear_solve(*operands: Any) -> Any:
        return solve(*_to_solve_with(eqn, operands))

    return jax.make_jaxpr(linear_solve)(*avals)


def _run_by_itself(eqn: Any, *operands: Any) -> Any:
    """What a library's primitive gives, which may ask for the numbers that it is called with."""
    told = [
        operand if _is_var(atom) else atom.val
        for atom, operand in zip(eqn.invars, operands, strict=True)
    ]
    return eqn.primitive.impl(*told, **eqn.params)


def _without_marks(program: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """A program without equations by which a library only marks a value.

    They refuse to be differentiated or mapped: where a library's primitive runs by itself, JAX does
    neither, and asks the primitive's own rules. Here its program stands in its place, and may be
    mapped later.
    """
    same: dict[Any, Any] = {}
    kept = []
    for eqn in program.jaxpr.eqns:
        operands = [atom if not _is_var(atom) else same.get(atom, atom) for atom in eqn.invars]
        if _is_mark(eqn):
            same[eqn.outvars[0]] = operands[0]
        else:
            kept.append(eqn.replace(invars=operands))
    results = [
        atom if not _is_var(atom) else same.get(atom, atom) for atom in program.jaxpr.outvars
    ]
    return core.ClosedJaxpr(program.jaxpr.replace(eqns=kept, outvars=results), program.consts)


def _is_mark(eqn: Any) -> bool:
    """Whether an equation is of a library's primitive that gives back what it is given."""
    if _is_of_jax(eqn) or len(eqn.invars) != 1 or len(eqn.outvars) != 1:
        return False
    run = partial(eqn.primitive.impl, **eqn.params)
    try:
        jaxpr = jax.make_jaxpr(run)(eqn.invars[0].aval).jaxpr
    except jax.errors.ConcretizationTypeError:
        return False
    return not jaxpr.eqns and jaxpr.outvars == jaxpr.invars


def kept_by(eqn: Any) -> Keeps | None:
    """Of which equations inside a checkpoint the results are kept; None where `eqn` is none."""
    if "prevent_cse" not in eqn.params:
        return None
    policy = eqn.params["policy"]

    def keeps(inner: Any) -> bool:
        if policy is None:
            return False
        answer = policy(inner.primitive, *(var.aval for var in inner.invars), **inner.params)
        return answer is not False and type(answer).__name__ != "RecomputeType"

    return keeps


def has_own_rule(eqn: Any) -> bool:
    """Whether an equation calls a function that has a derivative of its own."""
    if eqn.primitive.name == HI_PRIMITIVE:
        _check_arrays(eqn)
        return any(jnp.issubdtype(var.aval.dtype, jnp.inexact) for var in eqn.outvars)
    name = eqn.primitive.name
    if name in RULES_BESIDE_BODIES:
        return not is_of_cudnn(eqn)
    return name != MADE_LATE and is_from_outside(eqn)


def _check_arrays(eqn: Any) -> None:
    """Refuse values of types that are not JAX's own, which newer JAX lets a user define."""
    for var in (*eqn.invars, *eqn.outvars):
        if not hasattr(var.aval, "dtype"):
            raise without_form(
                eqn,
                f"in {type(eqn.params['_prim']).__name__}, a value is of type "
                f"{type(var.aval).__name__}, which is no array",
            )


def is_from_outside(eqn: Any) -> bool:
    """Whether an equation is of a library's primitive whose parameters have no written form.

    What it computes is what it runs as by itself.
    """
    if _is_of_jax(eqn):
        return False
    try:
        encode_params(eqn.params, JaxSymbols())
    except UnsupportedParameterError:
        return True
    return False


def _is_of_jax(eqn: Any) -> bool:
    run = getattr(eqn.primitive.impl, "func", eqn.primitive.impl)
    return str(run.__module__).split(".")[0] in ("jax", "jaxlib")


def has_own_tangent(eqn: Any) -> bool:
    """Whether the derivative of an equation's own is one in forward mode, too."""
    if eqn.primitive.name == HI_PRIMITIVE:
        kind: Any = type(eqn.params["_prim"])
        *_, base, _ = kind.__mro__  # JAX's class of them all, and `object`
        return kind.jvp is not base.jvp
    return has_own_rule(eqn) and eqn.primitive.name != "custom_vjp_call"


def function_of_jax(eqn: Any) -> str | None:
    """The name of a function of JAX's own, with tangents of its own, that an equation calls.

    Also of that of ours which derivatives of JAX's mark values by.
    """
    if eqn.primitive.name == HI_PRIMITIVE:
        return _HI_OPERATORS.get(type(eqn.params["_prim"]).__name__)
    if eqn.primitive.name != "custom_jvp_call":
        return None
    info = eqn.params["call_jaxpr"].jaxpr.debug_info
    name: str = info.func_name
    is_known = any(where in info.func_src_info for where in _KNOWN)
    return name.removeprefix("_") if is_known else None


def needed(jaxpr: Any, wanted: Sequence[bool], whole: bool = False) -> tuple[list[Any], set[Any]]:
    """The equations that the wanted results depend on, in order, and all variables they need.

    With `whole`, a function with a derivative of its own needs all of its operands: the derivative
    may look at what the function itself does not.
    """
    atoms = [atom for atom, want in zip(jaxpr.outvars, wanted, strict=True) if want]
    return needed_for(jaxpr, atoms, whole)


def needed_for(
    jaxpr: Any, atoms: Sequence[Any], whole: bool, effects: bool = True
) -> tuple[list[Any], set[Any]]:
    """The equations that any atoms of a program depend on, as `needed` gives them for results.

    With `effects`, also those that are there for their effects, and what they depend on.
    """
    live = set(filter(_is_var, atoms))
    kept = []
    for eqn in reversed(jaxpr.eqns):
        outs = [var in live for var in eqn.outvars]
        if any(outs) or (effects and eqn.effects):
            kept.append(eqn)
            live.update(filter(_is_var, _needed_operands(eqn, outs, whole)))
    return kept[::-1], live


def needed_in_scan(
    eqn: Any, wanted: Sequence[bool], whole: bool
) -> tuple[Sequence[bool], Sequence[bool]]:
    """Which operands the wanted results of a scan need, and which results it gives for that.

    These are the wanted ones, and what others need of the carry.
    """
    jaxpr, _ = open_program(eqn.params["jaxpr"])
    num_consts, num_carry = scan_counts(eqn.params)
    carry = slice(num_consts, num_consts + num_carry)
    gives = list(wanted)
    while True:
        _, live = needed(jaxpr, gives, whole)
        takes = [var in live for var in jaxpr.invars]
        both = list(map(or_, takes[carry], gives))
        takes[carry] = both
        if both == gives[:num_carry]:
            return takes, gives
        gives[:num_carry] = both


def scan_counts(params: Mapping[str, Any]) -> tuple[int, int]:
    """How many constants and carried values a scan has: from JAX 0.11 on, their trees say it."""
    if "num_carry" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = (len(list(part.vals)) for part in params["ft_in"].unpack())
    return consts, carry


def depends_on_inputs(closed: Any) -> list[bool]:
    """Which results of a jaxpr depend on what goes into it, and are not the same at each call."""
    jaxpr, _ = open_program(closed)
    reached = set(jaxpr.invars)
    for eqn in jaxpr.eqns:
        if not reached.isdisjoint(filter(_is_var, eqn.invars)):
            reached.update(eqn.outvars)

    def depends(place: int) -> bool:
        """What is reached may still be made of other operands; effects go into all results."""
        if not jaxpr.effects and (not _is_var(var := jaxpr.outvars[place]) or var not in reached):
            return False
        _, live = needed(jaxpr, [n == place for n in range(len(jaxpr.outvars))])
        return not live.isdisjoint(jaxpr.invars)

    return list(map(depends, range(len(jaxpr.outvars))))


def alone(eqn: Any) -> core.ClosedJaxpr:
    """The program of one equation by itself.

    A library's primitive keeps the numbers that it is called with: its rules may ask for them.
    """
    avals = [var.aval for var in (*eqn.invars, *eqn.outvars)]
    blank = jax.make_jaxpr(lambda *values: values)(*avals).jaxpr
    count = len(eqn.invars)
    ins, outs = blank.invars[:count], blank.invars[count:]
    taken = ins
    if is_from_outside(eqn):
        pairs = zip(eqn.invars, ins, strict=True)
        taken = [var if _is_var(atom) else atom for atom, var in pairs]
    equation = eqn.replace(invars=taken, outvars=outs)
    return core.ClosedJaxpr(blank.replace(invars=ins, outvars=outs, eqns=[equation]), ())


def _needed_operands(eqn: Any, wanted: Sequence[bool], whole: bool) -> Sequence[Any]:
    if eqn.primitive.name == "scan":
        return list(compress(eqn.invars, needed_in_scan(eqn, wanted, whole)[0]))
    wrapped = None if whole and has_own_rule(eqn) else inlined(eqn)
    if wrapped is None:
        return eqn.invars  # type: ignore[no-any-return]  # equations are untyped here
    (jaxpr, _), operands = wrapped
    _, live = needed(jaxpr, wanted, whole)
    return [atom for atom, var in zip(operands, jaxpr.invars, strict=True) if var in live]


def _is_var(atom: Any) -> bool:
    return not isinstance(atom, core.Literal)
