"""Checks that a user can run on programs of their own."""

from .compilations import Compared as Compared
from .compilations import CompilationError as CompilationError
from .compilations import Way as Way
from .compilations import compare_compilations as compare_compilations
from .gradients import GradientCheckError as GradientCheckError
from .gradients import check_gradients as check_gradients
