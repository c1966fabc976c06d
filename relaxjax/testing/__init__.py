"""Checks that a user can run on programs of their own."""

from .gradients import GradientCheckError as GradientCheckError
from .gradients import check_gradients as check_gradients
