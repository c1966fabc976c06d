"""Loops that stack less: what their steps back compute again, update at once, or read elsewhere."""
