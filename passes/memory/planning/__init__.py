"""Plans: what is kept for the backward part, what is computed again, and which plan is taken."""
