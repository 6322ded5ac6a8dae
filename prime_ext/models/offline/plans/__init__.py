"""Plans: for each intent, which calls to make in which order, and what to say at the end."""
