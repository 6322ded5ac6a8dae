"""A server that speaks the Messages API, strictly, for tests and benchmarks.

It validates what it is sent by the API's documented rules, streams as the real one does, keeps a
prompt cache and answers what a script says. See ``docs/test-api.md``.
"""
