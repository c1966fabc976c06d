"""Derivatives: the backward program, forward mode, and what a user says of either."""
