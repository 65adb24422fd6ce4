"""A model's connections are closed after its test, also for a later server at the same port."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from offprompt.testing.strict_server import StrictServer
from tests.gateway.client import script
from tests.integrations.agents import WIRES, chat_model
from tests.langchain_clients import close_model
from tests.service.talk import Wire


def answered(wire: Wire) -> Callable[..., dict[str, Any]]:
    def says(**_: Any) -> dict[str, Any]:
        return script(wire, "Fine.")[0]

    return says


@pytest.mark.parametrize("wire", WIRES)
def test_a_second_model_of_one_address_has_connections_of_its_own(wire: Wire) -> None:
    with StrictServer(answered(wire)) as server:
        for _ in range(2):
            model = chat_model(wire, server.url)
            assert model.invoke("Hello.").text == "Fine."
            close_model(model)
