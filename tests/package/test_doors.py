"""No door of the extension opens without authentication and authorisation."""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import TYPE_CHECKING, Any

import pytest
from jupyter_server.auth.authorizer import Authorizer
from jupyter_server.base.handlers import JupyterHandler
from tornado.httpclient import HTTPClientError
from tornado.web import RequestHandler

import prime_ext.handlers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_server.serverapp import ServerApp

VERBS = ("get", "head", "post", "put", "patch", "delete")


class NobodyMay(Authorizer):
    """Refuses everyone everything."""

    def is_authorized(self, handler: JupyterHandler, user: Any, action: str, resource: str) -> bool:
        return False


@pytest.fixture
def authorizer() -> str:
    return "jupyter_server.auth.authorizer.AllowAllAuthorizer"


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any], authorizer: str) -> dict[str, Any]:
    # Without the check against forged requests, what refuses a request can only be what is tested.
    jp_server_config["ServerApp"]["disable_check_xsrf"] = True
    jp_server_config["ServerApp"]["authorizer_class"] = authorizer
    return jp_server_config


def doors(app: ServerApp) -> Iterator[tuple[str, str]]:
    """Every verb and a path it is served at."""
    (extension,) = app.extension_manager.extension_apps["prime_ext"]
    for pattern, handler, *_ in extension.handlers:
        if not handler.__module__.startswith("prime_ext."):
            continue  # the static files that every extension serves
        path = re.sub(r"\([^()]*\)", "1", pattern.rstrip("$")).replace("/?", "").replace("\\", "")
        assert re.fullmatch(pattern, path), f"No example of {pattern} could be made."
        for verb in VERBS:
            if getattr(handler, verb) is not RequestHandler._unimplemented_method:
                yield verb.upper(), path


async def refused(jp_fetch: Any, app: ServerApp, **options: Any) -> list[str]:
    """The doors that did not answer 403."""
    opened = []
    tried = list(doors(app))
    assert len(tried) > 10
    for verb, path in tried:
        with pytest.raises(HTTPClientError) as answer:
            await jp_fetch(
                *path.strip("/").split("/"),
                method=verb,
                allow_nonstandard_methods=True,
                follow_redirects=False,
                **options,
            )
        # Behind all doors is one that has nothing to give: it may say so.
        refusals = {403, 404} if path.endswith(".*") else {403}
        if answer.value.code not in refusals:
            opened.append(f"{verb} {path}: {answer.value.code}")
    return opened


async def test_no_door_opens_without_a_token(jp_fetch: Any, jp_serverapp: ServerApp) -> None:
    assert await refused(jp_fetch, jp_serverapp, headers={"Authorization": "token wrong"}) == []


@pytest.mark.parametrize("authorizer", [f"{__name__}.NobodyMay"])
async def test_no_door_opens_for_who_is_not_authorised(
    jp_fetch: Any, jp_serverapp: ServerApp
) -> None:
    assert await refused(jp_fetch, jp_serverapp) == []


def test_every_handler_is_served_under_the_resource_of_the_extension() -> None:
    handlers = []
    for module in pkgutil.walk_packages(prime_ext.handlers.__path__, "prime_ext.handlers."):
        for found in vars(importlib.import_module(module.name)).values():
            if (
                isinstance(found, type)
                and issubclass(found, RequestHandler)
                and found.__module__ == module.name
            ):
                handlers.append(found)

    assert handlers
    assert [h.__name__ for h in handlers if getattr(h, "auth_resource", None) != "prime"] == []
