"""A raw client for the test API's own tests."""

from __future__ import annotations

import pytest

from tests.messages_api.client import Client
from tests.messages_api.server import MessagesAPI


@pytest.fixture
def client(messages_api: MessagesAPI) -> Client:
    return Client(messages_api)
