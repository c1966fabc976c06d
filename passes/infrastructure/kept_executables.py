"""A program as the processor runs it, kept on disk for the next process, which only loads it.

JAX keeps what XLA compiles, too, but finds it by the program that it has traced and lowered, which
takes longer than to load what is found. Here a program is known by the text of its module, by the
types of its arguments, and by all that decides what is compiled of them.
"""

import copyreg
import pickle
import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident
from typing import Any, TypeAlias

import jax
from jax import monitoring
from jax.core import ShapedArray, Tracer
from jax.experimental.serialize_executable import deserialize_and_load, serialize

from relaxjax.ir.module import IRModule
from relaxjax.ir.serialize import save_json

from .kept_files import (
    code,
    digest_of,
    kept_folder,
    processor,
    read_kept,
    settings,
    write_kept,
)
from .kept_results import is_kept, is_ours, nodes_of, text_of
from .pause_gc import collector_paused

_FORMAT = b"relaxjax kept executable 2"
_FOLDER = "executables"
_CALLED = re.compile(r'custom_call_target="([^"]*)"')
_OF_XLA = ("TopK", "__onednn$")  # how the calls begin that XLA answers itself
_Loaded: TypeAlias = Callable[..., Any]
# What JAX tells of its own work: that it compiles, or has found in its cache what was compiled.
_COMPILED = "/jax/core/compile/backend_compile_duration"
_OF_THE_CACHE = "/jax/compilation_cache/cache_hits"


class KeptExecutable:
    """A function under `jax.jit` that an earlier process may have compiled.

    `made_of` gives the module that it runs, and `known_as` is what that is kept by, if it is: else
    it is known by its text. The first call decides for what types of arguments the executable is;
    those of others are compiled as ever.
    """

    def __init__(self, jitted: Any, made_of: Callable[[], IRModule], known_as: str = "") -> None:
        self.jitted = jitted
        self.lower = jitted.lower
        self._made_of, self._known_as = made_of, known_as
        self._is_known = False  # whether it has been looked for
        self._loaded: _Loaded | None = None  # runs for arguments of the types that it is for
        self._missing: Path | None = None  # the file that the first call is to leave
        self._types = ""  # of the arguments that both are for

    @property
    def is_plain(self) -> bool:
        """Whether all calls are those of the function under `jax.jit`."""
        return self._is_known and self._loaded is None and self._missing is None

    def __call__(self, *args: Any) -> Any:
        config: Any = jax.config
        loaded = self._looked_for(args)
        if config.jax_disable_jit:
            return self.jitted(*args)
        if loaded is not None:
            try:
                return loaded(*args)
            except TypeError:  # of other types, which it finds out before it runs
                return self.jitted(*args)
        if self._missing is not None and not _are_traced(args):
            self.executable(args)  # from then on JAX has it compiled
        return self.jitted(*args)

    def executable(self, args: tuple[Any, ...]) -> Any:
        """What runs for arguments of such types, of which JAX traces none, and for no others."""
        loaded, missing = self._looked_for(args), self._missing
        types = _types_of(args)
        if loaded is not None and types == self._types:
            return loaded
        if missing is None or types != self._types:
            return self.lower(*args).compile()
        self._missing = None
        return self._first(missing, args)

    def _looked_for(self, args: tuple[Any, ...]) -> _Loaded | None:
        """What is there for arguments like these; whether it is, the first of them decide."""
        if self._is_known or _are_traced(args):
            return self._loaded
        with collector_paused():
            types = _types_of(args)
            path = self._path(types)
            if path is not None:
                self._loaded, self._types = _read(path), types
                self._missing = None if self._loaded else path
        self._is_known = True
        return self._loaded

    def _first(self, path: Path, args: tuple[Any, ...]) -> Any:
        """The program, compiled, which is kept if that takes long."""
        lowered = self.lower(*args)
        with _events() as events:
            began = time.perf_counter()
            compiled = lowered.compile()  # JAX compiles it no second time
            took = time.perf_counter() - began
        # XLA writes what it has loaded itself, of JAX's cache, without some of its functions.
        is_new = _COMPILED in events and _OF_THE_CACHE not in events
        is_told = is_kept(self._known_as) or _is_saved(self._made_of())
        if is_new and took >= _least_seconds() and is_told:
            _write(path, compiled)
        return compiled

    def _path(self, types: str) -> Path | None:
        config: Any = jax.config
        if config.jax_disable_jit or config.jax_debug_nans or config.jax_debug_infs:
            return None
        # Where there are others, arguments say on which device a program runs.
        if len(jax.devices()) > 1 or jax.devices()[0].platform != "cpu" or not code():
            return None
        folder = kept_folder(_FOLDER)
        if folder is None:
            return None
        program: Any = self._known_as
        if not program:
            mod = self._made_of()
            if not is_ours(nodes_of(mod)):
                return None
            program = text_of(mod)
        goes_by = program, types, processor(), settings()
        return folder / f"{digest_of(goes_by)}.executable"


def _are_traced(args: tuple[Any, ...]) -> bool:
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(args))


def _types_of(args: tuple[Any, ...]) -> str:
    """What a program is compiled for, of what it takes."""
    leaves, nesting = jax.tree.flatten(args)
    types = [(one.shape, one.dtype, one.weak_type) for one in map(jax.typeof, leaves)]
    return f"{nesting} {types}"


def _least_seconds() -> float:
    """How long what is kept takes to compile at least: as long as for JAX's own cache."""
    config: Any = jax.config
    return float(config.jax_persistent_cache_min_compile_time_secs)


def _is_saved(mod: IRModule) -> bool:
    """Whether the text of a module says it all: functions of Python have no form in a file."""
    try:
        save_json(mod)
    except (TypeError, ValueError):
        return False
    return True


@contextmanager
def _events() -> Iterator[set[str]]:
    """What JAX tells that it does meanwhile in this thread."""
    events, own = set[str](), get_ident()

    def heard(event: str, *_: Any, **__: Any) -> None:
        if get_ident() == own:
            events.add(event)

    monitoring.register_event_listener(heard)
    monitoring.register_event_duration_secs_listener(heard)
    try:
        yield events
    finally:
        monitoring.unregister_event_listener(heard)
        monitoring.unregister_event_duration_listener(heard)


def _read(path: Path) -> _Loaded | None:
    """What is kept in a file; one that cannot be loaded is told, and written anew."""
    try:
        content = read_kept(path, _FORMAT)
        if content is None:
            return None
        # As machine code would do, this runs what is written there: the folder is the user's own.
        loaded: _Loaded = deserialize_and_load(*pickle.loads(content))
        return loaded
    except Exception as error:  # whatever JAX and XLA raise about what another one has written
        warnings.warn(
            f"{path} holds no program that can be loaded, so that it is compiled anew: {error!r}",
            stacklevel=2,
        )
        return None


def _write(path: Path, compiled: Any) -> None:
    if _calls_this_process(compiled):
        return
    try:
        with _types_made_anew():
            content = pickle.dumps(serialize(compiled))
    except Exception:  # whatever JAX and XLA raise of what they cannot write
        return
    write_kept(path, _FORMAT, content)


@contextmanager
def _types_made_anew() -> Iterator[None]:
    """Within it, a file tells of the types of arrays what makes the very types where it is read.

    JAX compares them by identity, as of 0.12, and would trace all anew for those of a file.
    """
    copyreg.pickle(ShapedArray, _parts)
    try:
        yield
    finally:
        copyreg.dispatch_table.pop(ShapedArray, None)


def _parts(array: ShapedArray) -> Any:
    parts = array.shape, array.dtype, array.weak_type
    return (ShapedArray, parts) if ShapedArray(*parts) == array else array.__reduce_ex__(2)


def _calls_this_process(compiled: Any) -> bool:
    """Whether a program calls what is not XLA's own.

    That is Python, or a library such as LAPACK, which JAX makes ready as it lowers a call of it:
    where nothing is lowered, such a call ends the process.
    """
    text = compiled.as_text()
    return text is None or not all(name.startswith(_OF_XLA) for name in _CALLED.findall(text))
