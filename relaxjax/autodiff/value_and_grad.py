"""`value_and_grad` and `grad` in the place of JAX's, by way of a backward program in IR."""

import functools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import primitives

from relaxjax.frontends import JaxProgram, named_as, traced
from relaxjax.ir.arguments import check_flags
from relaxjax.ir.explorable import Explorable
from relaxjax.ir.module import IRModule
from relaxjax.lowering import ANOTHER_PLATFORM, for_each_platform, to_jax, to_jax_for
from relaxjax.lowering.memory import compiled_bytes
from relaxjax.lowering.traits import in_own_dtypes
from relaxjax.ops.lax import x64_enabled
from relaxjax.ops.platform import PLATFORM, chosen_platform, known_platform, lowering_for
from relaxjax.passes.infrastructure.pause_gc import collector_paused
from relaxjax.passes.memory.planning.budget import Budget
from relaxjax.passes.memory.report.memory_report import MemoryReport, planned_report
from relaxjax.trainable.sharding import MeshLike
from relaxjax.trainable.sharding_rules import ShardingLike

from .arguments import Arguments, sort_arguments
from .auxiliary_output import AuxiliaryOutput
from .backward import ADJOINT, LOSS, Memory, kept_or_written, written
from .frames import in_the_users_frames
from .loss_result import check_result
from .placing import CallPlaces, Placing, placed
from .sharding import are_on_one_device, check_whole, on_devices

_BY_JAX = jax.value_and_grad  # as it is before anyone puts that from here in its place


_DEFAULTS = {
    "argnums": 0,
    "has_aux": False,
    "allow_int": False,
    "memory_budget": None,
    "memory_policy": None,
    "mesh": None,
    "sharding": None,
    "devices": None,
}


class ValueAndGrad(Explorable):
    """A function of a loss's arguments: its value, and its gradients by some of them.

    `module(*args)` shows the backward program for such arguments, as it is run, and `memory(*args)`
    where its bytes go. Both take a `jax.ShapeDtypeStruct` instead of an array, too.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        argnums: int | Sequence[int],
        has_aux: bool,
        holomorphic: bool,
        allow_int: bool,
        memory_budget: Budget | None,
        memory_policy: str | None,
        mesh: MeshLike | None,
        sharding: ShardingLike | None,
        devices: int | None,
    ) -> None:
        if not callable(function):
            raise TypeError(
                f"the loss must be a function of arrays, found {function!r} of type "
                f"{type(function).__name__}"
            )
        check_flags(has_aux=has_aux, holomorphic=holomorphic, allow_int=allow_int)
        if holomorphic:
            raise ValueError(
                "`holomorphic=True` is not taken: take the gradient of the real part, "
                "`lambda z: jnp.real(f(z))`, which is the derivative of a holomorphic f"
            )
        self.function = function
        self.argnums = argnums
        self.has_aux = has_aux
        self.allow_int = allow_int
        self.memory_budget = memory_budget
        self.memory_policy = memory_policy
        self.mesh, self.sharding, self.devices = mesh, sharding, devices
        self._placing = Placing.of(mesh, sharding, devices)
        if self._placing is not None and memory_budget is not None:
            raise ValueError(
                "a `memory_budget` here is for one device, without `mesh` or `devices`: give a "
                "`memory_policy`, or take `relaxjax.train_step`, whose budget is for each device"
            )
        self._memory = Memory.of(memory_budget, memory_policy)
        self.__name__: str = getattr(function, "__name__", LOSS)
        # Its name and docstring, but none of its attributes, which may be called as those here.
        functools.update_wrapper(self, function, updated=())

    def __repr__(self) -> str:
        options = {name: getattr(self, name) for name in _DEFAULTS}
        given = [f"{k}={v!r}" for k, v in options.items() if v != _DEFAULTS[k]]
        return f"value_and_grad({', '.join([self.__name__, *given])})"

    @in_the_users_frames
    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        arguments = sort_arguments(self.function, args, kwargs, self.argnums, self.allow_int)
        arguments.check_numbers()
        arrays = [arguments.leaves[place] for place in arguments.traced]
        check_whole(arrays)
        with collector_paused():  # the loss and its backward program are traced
            program, auxiliary = self._program(arguments)
            wanted = [len(program.captured) + place for place in _wanted(arguments)]
            given = [_canonical(array) for array in (*program.captured, *arrays)]
            places = None if self._placing is None else self._placing.of_call(arguments, given)
            if places is not None:
                given = placed(given, places.arrays)
            adjoint = self._where_it_runs(program.module, wanted, given, places)
            leaves, gradients = _with_tangent(adjoint, program, wanted)(*given)
            if places is not None:
                gradients = placed(list(gradients), [places.arrays[place] for place in wanted])
        values = map(_promoting, leaves, (aval.weak_type for aval in program.avals))
        found = map(_promoting, gradients, arguments.weak)
        value = jax.tree.unflatten(program.results, values)
        if self.has_aux:
            value = value[0], auxiliary.unflatten(value[1])
        return value, arguments.nested(found)

    @in_the_users_frames
    def module(self, *args: Any, **kwargs: Any) -> IRModule:
        """The module with the function `loss_adjoint` for arguments like these."""
        arguments = sort_arguments(self.function, args, kwargs, self.argnums, self.allow_int)
        program, _ = self._program(arguments)
        wanted = [len(program.captured) + place for place in _wanted(arguments)]
        return written(program.module, wanted, self._memory)

    @in_the_users_frames
    def inputs(self, *args: Any, **kwargs: Any) -> list[Any]:
        """What `loss_adjoint` of `module` takes for such arguments: their arrays, in its order."""
        arguments = sort_arguments(self.function, args, kwargs, self.argnums, self.allow_int)
        program, _ = self._program(arguments)
        return [*program.captured, *(arguments.leaves[place] for place in arguments.traced)]

    @in_the_users_frames
    def memory(self, *args: Any, **kwargs: Any) -> MemoryReport:
        """Where the bytes of the backward program for such arguments go, by budget or policy."""
        arguments = sort_arguments(self.function, args, kwargs, self.argnums, self.allow_int)
        program, _ = self._program(arguments)
        wanted = [len(program.captured) + place for place in _wanted(arguments)]
        mod = written(program.module, wanted, Memory(None, "none"))
        jax_bytes = partial(self._jax_bytes, arguments, x64_enabled())
        asked = self._memory.budget, self._memory.policy
        return planned_report(mod, ADJOINT, *asked, jax_bytes=jax_bytes)

    def _jax_bytes(self, arguments: Arguments, x64: bool) -> int:
        """The temporary bytes of JAX's own derivative on one device, by XLA's count."""
        function = arguments.bound(self.function)

        def loss(*arrays: Any) -> Any:
            if not self.has_aux:
                return function(*arrays)
            value, beside = function(*arrays)
            return value, AuxiliaryOutput().flatten(beside, {})

        types = [jax.typeof(arguments.leaves[place]) for place in arguments.traced]
        abstract = [jax.ShapeDtypeStruct(t.shape, t.dtype, weak_type=t.weak_type) for t in types]
        theirs = _BY_JAX(loss, _wanted(arguments), self.has_aux)
        with jax.enable_x64(x64):
            return compiled_bytes(jax.jit(theirs).lower(*abstract), self.__name__)

    def _program(self, arguments: Arguments) -> tuple[JaxProgram, AuxiliaryOutput]:
        """The program of the arrays, and what else the function returns beside the loss."""
        indices, auxiliary = arguments.traced, AuxiliaryOutput()
        function, has_aux = arguments.bound(self.function), self.has_aux
        untraced = arguments.untraced  # JAX keeps `on_arrays`, and leaves may be traced

        def on_arrays(*arrays: Any) -> Any:
            result = function(*arrays)
            check_result(result, has_aux)
            if not has_aux:
                return result
            pairs = zip(arrays, untraced, strict=True)
            own = {id(array): leaf for array, leaf in pairs if leaf is not None}
            return result[0], auxiliary.flatten(result[1], own)

        arrays = [arguments.leaves[index] for index in indices]
        names = [arguments.names[index] for index in indices]
        named_as(self.function, on_arrays, names)
        return traced(on_arrays, arrays, names, name=LOSS, moving=_wanted(arguments)), auxiliary

    def _where_it_runs(
        self,
        mod: IRModule,
        wanted: Sequence[int],
        arrays: Sequence[Any],
        places: CallPlaces | None,
    ) -> Callable[..., Any]:
        """The backward program as a function of arrays, in the forms of the platform it runs on."""
        memory = self._memory

        def made_for(platform: str) -> IRModule:
            # Of a gradient inside of a loss that is read. Nothing counts bytes for a budget there.
            is_any = platform == ANOTHER_PLATFORM
            planned = Memory.of(None, memory.policy) if is_any else memory
            with lowering_for(platform):
                made = kept_or_written(mod, wanted, planned)
            return made if places is None else places.with_gathered_params(made, ADJOINT, wanted)

        known = known_platform(arrays) if self._placing is None else self._placing.platform
        own = known or chosen_platform()
        first = made_for(own)
        if known is not None or PLATFORM not in first.attrs or not are_on_one_device(arrays):
            return in_own_dtypes(to_jax(first, ADJOINT), first, ADJOINT)

        def program_for(platform: str) -> Callable[..., Any]:
            made = first if platform == own else made_for(platform)
            return in_own_dtypes(to_jax_for(platform, made, ADJOINT), made, ADJOINT)

        return for_each_platform(program_for, own)


def value_and_grad(
    function: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    memory_budget: Budget | None = None,
    memory_policy: str | None = None,
    mesh: MeshLike | None = None,
    sharding: ShardingLike | None = None,
    devices: int | None = None,
) -> ValueAndGrad:
    """A function that gives the value of a loss and its gradients, as `jax.value_and_grad` does.

        step = jax.jit(relaxjax.value_and_grad(loss))
        value, gradients = step(params, batch)

    Like JAX's it belongs inside a `jax.jit`, which calls it once for each set of shapes; called by
    itself it traces the loss anew each time, and runs one operator after the other. Arrays among
    the arguments are traced whether they are differentiated by or not; everything else stays as it
    is. With `allow_int`, integers and random keys among the arguments of `argnums` are passed over:
    their gradients have no numbers. With `memory_budget` or `memory_policy`, values are computed
    again rather than kept, as `Rematerialize` explains. Meeting a budget compiles the program
    several times.

    The program is made for the platform that JAX lowers it for, a budget kept on that one.

    With a `mesh`, such as {"data": 4, "model": 2}, or so many `devices`, the arguments of `argnums`
    are placed as parameters by `sharding`, as SetupTrainer has them: "data", which is the default,
    "fsdp", or a mapping from patterns for names such as `layers/0/w` to specs. The other arrays are
    a batch, whose samples are spread. Gradients lie where their parameters do. Without these,
    arrays stay where they are.
    """
    return ValueAndGrad(
        function,
        argnums,
        has_aux,
        holomorphic,
        allow_int,
        memory_budget,
        memory_policy,
        mesh,
        sharding,
        devices,
    )


def grad(
    function: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    memory_budget: Budget | None = None,
    memory_policy: str | None = None,
    mesh: MeshLike | None = None,
    sharding: ShardingLike | None = None,
    devices: int | None = None,
) -> Callable[..., Any]:
    """A function that gives the gradients of a loss, as `jax.grad` does: see `value_and_grad`."""
    both = value_and_grad(
        function,
        argnums,
        has_aux,
        holomorphic,
        allow_int,
        memory_budget=memory_budget,
        memory_policy=memory_policy,
        mesh=mesh,
        sharding=sharding,
        devices=devices,
    )

    @functools.wraps(function)
    @in_the_users_frames
    def gradients(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradients


def _wanted(arguments: Arguments) -> list[int]:
    """Which of the traced leaves are differentiated by."""
    among = {place: number for number, place in enumerate(arguments.traced)}
    return [among[place] for place in arguments.wanted]


def _promoting(array: Any, weak: bool) -> Any:
    """An array that promotes like a number of Python where it is `weak`, as JAX calls that."""
    if getattr(jax.typeof(array), "weak_type", False) == weak:
        return array
    params = {"new_dtype": array.dtype, "weak_type": weak, "sharding": None}
    return primitives.convert_element_type_p.bind(array, **params)


def _canonical(array: Any) -> Any:
    """What `jax.vmap` maps, as an array of JAX: it may be NumPy's, which a `custom_jvp` refuses."""
    if not hasattr(array, "batch_dim") or jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        return array
    params = {"new_dtype": array.dtype, "weak_type": array.weak_type, "sharding": None}
    return primitives.convert_element_type_p.bind(array, **params)


def _with_tangent(
    adjoint: Callable[..., Any], program: JaxProgram, wanted: Sequence[int]
) -> Callable[..., Any]:
    """The adjoint as a function of arrays that JAX differentiates as it would its own.

    The derivatives of a gradient are not in the backward program where a function has a derivative
    of its own: they are made of the loss.
    """

    run = program.run  # JAX keeps it; what the program captured may be traced

    def both(*arrays: Any) -> Any:
        result, gradients = adjoint(*arrays)
        return list(result) if isinstance(result, tuple) else [result], list(gradients)

    def ours(*arrays: Any) -> Any:
        values, gradients = on_devices(both, program.all_avals, wanted)(*arrays)
        return program.reported(values), tuple(gradients)

    def theirs(*arrays: Any) -> Any:
        def loss(*varied: Any) -> Any:
            given = dict(enumerate(arrays)) | dict(zip(wanted, varied, strict=True))
            results = run(*given.values())
            return results[0], results

        places = tuple(range(len(wanted)))
        given = (arrays[place] for place in wanted)
        (_, results), gradients = _BY_JAX(loss, places, has_aux=True)(*given)
        return list(results), gradients

    def moved(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """Only what moves is traced: rules may use what is computed of the rest around them."""
        still = [isinstance(tangent, SymbolicZero) for tangent in tangents]
        places = [place for place, is_still in enumerate(still) if not is_still]

        def of_moving(*arrays: Any) -> Any:
            given = dict(enumerate(map(_traceable, primals))) | dict(
                zip(places, arrays, strict=True)
            )
            return theirs(*given.values())

        moving, by = [primals[i] for i in places], [tangents[i] for i in places]
        return jax.jvp(of_moving, moving, by)

    function = jax.custom_jvp(ours)
    function.defjvp(moved, symbolic_zeros=True)
    return function


def _traceable(array: Any) -> Any:
    """An array as JAX traces it, so that what a loss returns beside its value is one too."""
    return array if isinstance(array, jax.Array) else jnp.asarray(array)
