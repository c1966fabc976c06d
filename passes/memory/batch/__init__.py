"""A batch in equal parts, one after the other: which values are of which part, and the loop."""
