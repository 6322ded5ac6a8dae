"""The agent without a browser: the parts of ``jupyter prime run``."""
