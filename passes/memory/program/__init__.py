"""A backward program as its planner sees it: its steps, their order, and what waits for what."""
