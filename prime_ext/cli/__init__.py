"""``jupyter prime …``: what can be done with sessions from a shell.

``main`` holds the list of commands; each command is a module with ``add`` and ``run``.
"""
