"""The server extension."""

from __future__ import annotations

from jupyter_server.extension.application import ExtensionApp


class PrimeExtension(ExtensionApp):
    """Serves the agent that works in the open notebook."""

    name = "prime"
    # `jupyter server`, with only its own extensions, has no notebooks to work on.
    load_other_extensions = True
