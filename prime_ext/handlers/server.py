"""Handlers that belong to no session: status, models, variables, credentials, description."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Annotated

import msgspec
from tornado import web

from prime_ext.errors import PrimeError
from prime_ext.handlers.base import PrimeHandler, authorized


class Credentials(msgspec.Struct, forbid_unknown_fields=True):
    """Body of ``PUT credentials``: what a person enters to connect a model."""

    provider: Annotated[str, msgspec.Meta(min_length=1, max_length=40)]
    api_key: Annotated[str, msgspec.Meta(max_length=4096)] | None = None
    base_url: Annotated[str, msgspec.Meta(max_length=4096)] | None = None


class StatusHandler(PrimeHandler):
    """``GET status``: version, model, endpoint, permission modes and snapshots."""

    @web.authenticated
    @authorized("read")
    async def get(self) -> None:
        self.answer({**self.agent.status(), "snapshots": await self.agent.saved_in_all()})


class ModelsHandler(PrimeHandler):
    """``GET models``: the models that a session can use."""

    @web.authenticated
    @authorized("read")
    async def get(self) -> None:
        self.answer({"models": await self.agent.models()})


class VariablesHandler(PrimeHandler):
    """``GET variables?notebook=``: the variables in a notebook's kernel, to mention in messages."""

    @web.authenticated
    @authorized("execute")
    async def get(self) -> None:
        notebook = self.get_query_argument("notebook", "")
        if not notebook:
            raise PrimeError(
                "`notebook` is missing.",
                code="invalid_request",
                hint="Give the path of the notebook, relative to the server's root.",
            )
        self.answer(await self.agent.variables(notebook))


class CredentialsHandler(PrimeHandler):
    """``PUT|DELETE credentials``: a key that is stored on the server and never returned."""

    @web.authenticated
    @authorized("write")
    async def put(self) -> None:
        body = self.body(Credentials)
        unchecked = await self.agent.set_credentials(body.provider, body.api_key, body.base_url)
        self.answer({"unchecked": unchecked})

    @web.authenticated
    @authorized("write")
    async def delete(self) -> None:
        await self.agent.clear_credentials()
        self.answer_nothing()


@cache
def description() -> bytes:
    """Return the OpenAPI description of all handlers."""
    return files("prime_ext").joinpath("openapi.yaml").read_bytes()


class DescriptionHandler(PrimeHandler):
    """``GET openapi.yaml``."""

    @web.authenticated
    @authorized("read")
    async def get(self) -> None:
        self.finish(description(), set_content_type="application/yaml")


class NotFoundHandler(PrimeHandler):
    """Any other path under ``prime/api/``, so that its error is JSON, too."""

    @web.authenticated
    async def get(self) -> None:
        raise web.HTTPError(404)

    @web.authenticated
    async def post(self) -> None:
        raise web.HTTPError(404)

    @web.authenticated
    async def put(self) -> None:
        raise web.HTTPError(404)

    @web.authenticated
    async def patch(self) -> None:
        raise web.HTTPError(404)

    @web.authenticated
    async def delete(self) -> None:
        raise web.HTTPError(404)
