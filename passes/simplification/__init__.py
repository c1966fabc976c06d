"""Making programs smaller: algebra, shared values, constants, dead code."""
