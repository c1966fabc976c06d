"""Reading a jaxpr: JAX's own programs as calls of the `lax` dialect, one binding an equation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from operator import and_
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from jax.extend import core

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.expr import Call, Constant, Expr, ExternFunc, Tuple, TupleGetItem, Var, np_dtype
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.span import located
from relaxjax.ir.types import FuncType, TensorType, TupleType
from relaxjax.ops.packed import held_name

from . import control
from .avals import is_key, type_of
from .inlining import (
    Keeps,
    Program,
    has_own_rule,
    inlined,
    kept_by,
    needed_for,
    needed_in_scan,
    open_program,
    scan_counts,
)
from .known_values import Known
from .lowering import written_params
from .naming import assigned_names, source_span
from .parameters import UnsupportedParameterError, encode_params
from .platform_choice import PlatformIndex, are_values, choices_among, values_of
from .symbols import JaxSymbols
from .unsupported import (
    OF_REFERENCES,
    REPORTS,
    UnsupportedPrimitiveError,
    has_effects,
    without_form,
)

Hint = Callable[[str], str]
# Given an array that JAX traced in a program around this one: what it is here, if that is known.
Found = Callable[[Any], Expr | None]
# Given an equation that calls a function with a derivative of its own, its operands, and where to
# find what else its rule uses: the call, and which of its results have no derivative by the rule;
# None for what its body does.
OwnRule = Callable[[Any, list[Expr], Found, Sequence[bool]], tuple[Call, Sequence[bool]] | None]
# An equation that prints, or calls back the user's Python, and its operands.
Report = tuple[Any, list[Expr]]


@dataclass
class Reader:
    """Emits the equations of JAX programs into a builder.

    `op_of` gives the operator of a primitive, `hint` a name for what a primitive computes. `known`
    are calls whose value there is already: they are not emitted again. With a `platform`, what
    depends on the platform is decided here. With `spans`, bindings come from the user's own lines,
    and bear the names of the variables there.
    Functions with derivatives of their own become what `own_rule` makes of them; without it they
    are programs like others, and so are checkpoints. Inside of one, `keeps` says what it keeps.
    What prints is added to `reports`, where they are asked for: loops and branches have none.
    With `callbacks`, what is asked of Python for a result is a call of a function from outside.
    """

    builder: BlockBuilder
    op_of: Callable[[core.Primitive], Op]
    symbols: JaxSymbols
    hint: Hint = lambda primitive: "lv"
    known: Known = field(default_factory=dict)
    platform: str | None = None
    spans: bool = True
    own_rule: OwnRule | None = None
    names: Sequence[str | None] = ()
    keeps: Keeps | None = None
    scopes: list[Found] = field(default_factory=list)
    reports: list[Report] | None = None
    callbacks: bool = False

    def found(self, array: Any) -> Expr | None:
        """What an array is here that JAX traced in one of the programs that are being read."""
        exprs = (scope(array) for scope in reversed(self.scopes))
        return next((expr for expr in exprs if expr is not None), None)

    def read(
        self, program: Program, args: Sequence[Expr | None], wanted: Sequence[bool]
    ) -> list[Expr | None]:
        """Emit what the wanted results need; one expression for each, None for the others."""
        jaxpr, consts = program
        names = assigned_names(jaxpr, self.names) if self.spans else {}
        values = dict(zip(jaxpr.constvars, consts, strict=True))
        env: dict[Any, Any] = dict(zip(jaxpr.invars, args, strict=True))
        reported: set[int] = set()

        def read(atom: Any) -> Any:
            if getattr(atom.aval, "dtype", None) == jax.dtypes.float0:
                return None  # the tangent of an integer: nothing is computed with it
            if isinstance(atom, core.Literal):
                return self.constant(atom.val, atom.aval)
            if atom not in env and atom in values:
                env[atom] = self.constant(values[atom], atom.aval)
            return env.get(atom)  # None for what a program inside does not need

        def emit(atoms: Sequence[Any], effects: bool) -> None:
            """Emit what some atoms need and is not there yet, and with `effects` all that have."""
            whole = self.own_rule is not None
            equations, live = needed_for(jaxpr, atoms, whole, effects)
            for eqn in equations:
                outs = [var in live and env.get(var) is None for var in eqn.outvars]
                if any(outs) or (eqn.effects and id(eqn) not in reported):
                    known = None if self.reports is None else len(self.reports)
                    outer, self.names = self.names, [names.get(var) for var in eqn.outvars]
                    found = zip(eqn.outvars, self.spanned(eqn, read, outs), strict=True)
                    self.names = outer
                    env.update((var, value) for var, value in found if env.get(var) is None)
                    if id(eqn) in reported and self.reports is not None:
                        del self.reports[known:]
                    reported.add(id(eqn))

        def found(array: Any) -> Expr | None:
            var = getattr(array, "val", None)
            if not isinstance(var, core.Var):
                return None
            emit([var], effects=False)
            value: Expr | None = read(var)
            return value

        self.scopes.append(found)
        results = [atom for atom, want in zip(jaxpr.outvars, wanted, strict=True) if want]
        emit(results, effects=True)
        self.scopes.pop()
        return [
            read(atom) if want else None for atom, want in zip(jaxpr.outvars, wanted, strict=True)
        ]

    def spanned(
        self, eqn: Any, read: Callable[[Any], Any], wanted: Sequence[bool]
    ) -> Sequence[Any]:
        """Emit one equation with the place in the user's text that it comes from."""
        span = source_span(eqn) if self.spans else None
        with located(span), self.builder.origin(span):
            results = self.equation(eqn, read, wanted)
            if self.keeps is not None and self.keeps(eqn):
                return [self.marked(result, "start_checkpoint") for result in results]
        return results

    def equation(
        self, eqn: Any, read: Callable[[Any], Any], wanted: Sequence[bool]
    ) -> Sequence[Any]:
        """Emit one equation, in whatever form it takes here."""
        name = eqn.primitive.name
        if self.own_rule is not None and has_own_rule(eqn):
            own = self.own_rule(eqn, list(map(read, eqn.invars)), self.found, wanted)
            if own is not None:
                call, still = own
                results = self.results(self.emit(call, name), wanted)
                return [self.stopped(*pair) for pair in zip(results, still, strict=True)]
        wrapped = inlined(eqn)
        if wrapped is not None:
            program, operands = wrapped
            args = list(map(read, operands))
            keeps = None if self.own_rule is None or self.keeps else kept_by(eqn)
            if keeps is None:
                return self.read(program, args, wanted)
            return self.between_marks(program, args, wanted, keeps)
        args = list(map(read, eqn.invars))
        if name in _ALIASES and _ALIASES[name](eqn):
            return args
        if name in _CONTROL:
            return _CONTROL[name](self, eqn, args, wanted)  # type: ignore[no-any-return]
        if name == "pure_callback" and self.callbacks:
            return self.results(self.emit(self.callback(eqn, args), name), wanted)
        return self.call(eqn, args, wanted)

    def between_marks(
        self, program: Program, args: list[Expr | None], wanted: Sequence[bool], keeps: Keeps
    ) -> list[Expr | None]:
        """Emit a program whose values are computed again in the backward one, but for some."""
        started = [self.marked(arg, "start_checkpoint") for arg in args]
        results = replace(self, keeps=keeps).read(program, started, wanted)
        return [self.marked(result, "end_checkpoint") for result in results]

    def marked(self, value: Any, mark: str) -> Any:
        if not isinstance(value, Var) or not isinstance(value.ty, TensorType):
            return value
        return self.builder.emit(get_op(f"relax.grad.{mark}")(value), value.name)

    def stopped(self, value: Expr | None, still: bool) -> Expr | None:
        """A result; where it stands still, as one that nothing is differentiated through."""
        if value is None or not still:
            return value
        return self.builder.emit(get_op("lax.stop_gradient")(value))

    def call(self, eqn: Any, args: list[Expr], wanted: Sequence[bool]) -> Sequence[Expr | None]:
        """Emit an equation as the call of its primitive's operator."""
        name = eqn.primitive.name
        if name in REPORTS and self.reports is not None:
            self.reports.append((eqn, args))
            return []
        if eqn.effects:
            raise has_effects(eqn)
        try:
            attrs = encode_params(written_params(eqn), self.symbols)
        except UnsupportedParameterError as error:
            raise without_form(eqn, error) from None
        types = [type_of(var.aval, self.symbols) for var in eqn.outvars]
        ty = TupleType(tuple(types)) if eqn.primitive.multiple_results else types[0]
        call = Call(self.op_of(eqn.primitive), tuple(args), attrs, ty=ty)
        return self.results(self.emit(call, name), wanted)

    def callback(self, eqn: Any, args: list[Expr]) -> Call:
        """The call of a function of the user's Python, which the program that is read names."""
        function = eqn.params["callback"].callback_func
        written = getattr(function, "__name__", "callback")

        def run(*arrays: Any) -> Any:
            results = eqn.primitive.bind(*arrays, **eqn.params)
            return results[0] if len(results) == 1 else tuple(results)

        name = held_name(written if written.isidentifier() else "callback", run)
        types = [type_of(var.aval, self.symbols) for var in eqn.outvars]
        return Call(ExternFunc(name, ty=FuncType(pure=True)), tuple(args), ty_args=tuple(types))

    def emit(self, call: Call, name: str) -> Expr:
        """The value of a call: one that is known, or a new variable."""
        known = self.known.get(call, self.known.get((name, call.ty)))
        return self.builder.emit(call, self.name(call, name)) if known is None else known

    def name(self, call: Call, primitive: str) -> str:
        """What the user calls the value of a call, or a name for what its primitive computes."""
        single = len(self.names) == 1 and not isinstance(call.ty, TupleType)
        return (self.names[0] if single else None) or self.hint(primitive)

    def results(self, value: Expr, wanted: Sequence[bool]) -> Sequence[Expr | None]:
        """The results of an equation, taken out of a tuple where they are in one."""
        if not isinstance(value.ty, TupleType):
            return [value]
        names = self.names if len(self.names) == len(wanted) else [None] * len(wanted)
        return [
            self.builder.emit(TupleGetItem(value, index), name or self.hint("field"))
            if want
            else None
            for index, (want, name) in enumerate(zip(wanted, names, strict=True))
        ]

    def function(
        self,
        program: Program,
        name: str,
        takes: Sequence[bool] | None = None,
        gives: Sequence[bool] | None = None,
        scalar: bool = False,
        args: Sequence[Any] | None = None,
    ) -> Var:
        """Bind a program as a closed function, of a tuple or of one scalar.

        It may take some of the inputs only, and give some of the results. What it is called with
        in the place of the others, its `args` say: the function knows it, where it is a choice.
        """
        jaxpr, _ = program
        takes = [True] * len(jaxpr.invars) if takes is None else takes
        gives = [True] * len(jaxpr.outvars) if gives is None else gives
        choices = choices_among(args or [None] * len(takes))
        inputs: list[Any] = [
            Var(self.builder.get_unique_name("x"), type_of(var.aval, self.symbols))
            if is_taken
            else choice
            for var, is_taken, choice in zip(jaxpr.invars, takes, choices, strict=True)
        ]
        params = [var for var in inputs if isinstance(var, Var)]
        inside = replace(self, keeps=None, scopes=[], reports=None, names=())
        with self.builder.scope():
            results = inside.read(program, inputs, gives)
            fields = tuple(result for result in results if result is not None)
            body = self.builder.sequence(fields[0] if scalar else Tuple(fields))
        return self.builder.emit(make_function(params, body, ret_ty=body.ty), name)

    def constant(self, value: Any, aval: Any) -> Expr:
        """A constant of a program. A random key is made of its data: constants are numbers.

        JAX takes for a constant of an inner program what the one around it computes, too. The data
        of a key is taken out now, also where `jax.jit` traces what reads the program.
        """
        if isinstance(value, Tracer):
            return self.computed(value)
        if type(aval).__name__ == "AbstractRef":  # which JAX has no public name for
            raise UnsupportedPrimitiveError(
                f"a reference from around, {aval.str_short()}, is used, which the IR cannot hold"
                + OF_REFERENCES
            )
        if not is_key(aval.dtype):
            return Constant(np.asarray(value, np_dtype(str(aval.dtype))))
        with jax.ensure_compile_time_eval():
            data = np.asarray(jax.random.key_data(value))
        impl = str(jax.random.key_impl(value))
        program = jax.make_jaxpr(lambda bits: jax.random.wrap_key_data(bits, impl=impl))(data)
        (key,) = self.read(open_program(program), [Constant(data)], [True])
        assert key is not None
        return key

    def computed(self, array: Any) -> Expr:
        """An array that one of the programs around computes."""
        expr = self.found(array)
        if expr is None:
            raise UnsupportedPrimitiveError(
                "a function inside of the one that is read uses an array from around it, of type "
                f"{array.aval.str_short()}, which is not known there: hand it in as an argument"
            )
        return expr


def _scan(reader: Reader, eqn: Any, args: list[Any], wanted: Sequence[bool]) -> Any:
    """The loop of what the wanted results need."""
    needs, gives = needed_in_scan(eqn, wanted, reader.own_rule is not None)
    takes = list(map(and_, needs, are_values(args)))
    num_consts, num_carry = scan_counts(eqn.params)
    body = reader.function(open_program(eqn.params["jaxpr"]), "body", takes, gives, args=args)
    call = control.scan(
        body,
        *compress(args, takes),
        length=reader.symbols.from_jax(eqn.params["length"]),
        num_consts=sum(takes[:num_consts]),
        num_carry=sum(gives[:num_carry]),
        reverse=eqn.params["reverse"],
        unroll=max(1, eqn.params["unroll"]),  # JAX takes 0 for a loop as it is
    )
    named = replace(reader, names=list(compress(reader.names, gives)))
    given = iter(named.results(named.emit(call, "scan"), list(compress(wanted, gives))))
    return [next(given) if is_given else None for is_given in gives]


def _while(reader: Reader, eqn: Any, args: list[Expr], wanted: Sequence[bool]) -> Any:
    test, step = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    of_test, of_step, carry = args[:test], args[test : test + step], args[test + step :]
    cond = _closed(reader, eqn.params["cond_jaxpr"], "cond", [*of_test, *carry], scalar=True)
    body = _closed(reader, eqn.params["body_jaxpr"], "body", [*of_step, *carry])
    counts = {"cond_consts": sum(are_values(of_test)), "body_consts": sum(are_values(of_step))}
    call = control.while_loop(cond, body, *values_of(args), **counts)
    return reader.results(reader.emit(call, "while_loop"), wanted)


def _cond(reader: Reader, eqn: Any, args: list[Any], wanted: Sequence[bool]) -> Any:
    index, *operands = args
    chosen = index.branch(reader.platform) if isinstance(index, PlatformIndex) else None
    if chosen is not None:
        return reader.read(open_program(eqn.params["branches"][chosen]), operands, wanted)
    branches = [_closed(reader, branch, "branch", operands) for branch in eqn.params["branches"]]
    operands = values_of(operands)
    if isinstance(index, PlatformIndex):
        call = control.platform_dependent(*branches, *operands, platforms=index.platforms)
        return reader.results(reader.emit(call, "platform_dependent"), wanted)
    call = control.switch(index, *branches, *operands)
    return reader.results(reader.emit(call, "switch"), wanted)


def _reduce(reader: Reader, eqn: Any, args: list[Expr], wanted: Sequence[bool]) -> Any:
    combine = reader.function(open_program(eqn.params["jaxpr"]), "combine")
    call = control.reduce(combine, *args, dimensions=tuple(eqn.params["dimensions"]))
    return reader.results(reader.emit(call, "reduce"), wanted)


def _nothing(reader: Reader, eqn: Any, args: list[Expr], wanted: Sequence[bool]) -> Any:
    """The scalar that JAX keeps of a branch not taken, where another one keeps something."""
    (out,) = eqn.outvars
    return [Constant(np.zeros((), np_dtype(str(out.aval.dtype))))]


def _closed(
    reader: Reader, program: Any, name: str, args: Sequence[Any], scalar: bool = False
) -> Var:
    """Bind a program as a closed function of those of its arguments that are values."""
    takes = are_values(args)
    return reader.function(open_program(program), name, takes, scalar=scalar, args=args)


def _platform_index(reader: Reader, eqn: Any, args: list[Expr], wanted: Sequence[bool]) -> Any:
    return [PlatformIndex(eqn.params["platforms"])]


_CONTROL: dict[str, Callable[[Reader, Any, list[Any], Sequence[bool]], Any]] = {
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "platform_index": _platform_index,
    "reduce": _reduce,
    "empty2": _nothing,
}

# Equations that change nothing which the IR knows of: weak types, copies, places by default.
_ALIASES: dict[str, Callable[[Any], bool]] = {
    "convert_element_type": lambda eqn: eqn.invars[0].aval.dtype == eqn.outvars[0].aval.dtype,
    "copy": lambda eqn: True,
    "device_put": lambda eqn: not any(eqn.params["devices"]),
    "reshard": lambda eqn: True,
    "pvary": lambda eqn: True,
}
