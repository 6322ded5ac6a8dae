"""Plans: for each intent, the calls to make in order and the closing text."""
