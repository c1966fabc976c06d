"""Tracebacks of errors in a loss: without the frames between the user's calls, as by JAX."""

import functools
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, TypeVar

import jax

P = ParamSpec("P")
R = TypeVar("R")

# Where this package lies, and what a checkout has beside it.
_OWN = Path(__file__).parents[1]
_FOLDERS = tuple({f"{path.resolve()}/" for path in (_OWN, *_OWN.glob("*/"))})
_OF_JAX = f"{Path(jax.__file__).parent}/"


def in_the_users_frames(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, whose errors show of its own frames none that a user's call leads to or from.

    An error of this package's own shows where it was found. So do all, where JAX is told to leave
    no frames out: by JAX_TRACEBACK_FILTERING=off.
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if getattr(jax.config, "jax_traceback_filtering", None) != "off":
                error.with_traceback(_filtered(error.__traceback__))
            raise

    return run


def _filtered(traceback: TracebackType | None) -> TracebackType | None:
    frames = []
    while traceback is not None:
        frames.append(traceback)
        traceback = traceback.tb_next
    last = max((i for i, frame in enumerate(frames) if _is_users(frame)), default=-1)
    kept = [frame for i, frame in enumerate(frames) if i > last or not _is_own(frame)]
    for frame in reversed(kept):
        traceback = TracebackType(traceback, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return traceback


def _is_own(frame: TracebackType) -> bool:
    return frame.tb_frame.f_code.co_filename.startswith(_FOLDERS)


def _is_users(frame: TracebackType) -> bool:
    return not _is_own(frame) and not frame.tb_frame.f_code.co_filename.startswith(_OF_JAX)
