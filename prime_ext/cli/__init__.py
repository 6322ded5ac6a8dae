"""The commands of ``jupyter prime``, for work with sessions from a shell.

``main`` holds the list of commands. Each command is a module with ``add`` and ``run``.
"""
