"""Schemas of their own for tests on PostgreSQL: made by the store, gone afterwards."""

from __future__ import annotations

import uuid
from collections.abc import Generator
from contextlib import contextmanager

import psycopg

from tests.servers import Server, postgres_url


@contextmanager
def schema_url(server: Server) -> Generator[str]:
    """The URL of a schema that nobody else uses."""
    name = f"t_{uuid.uuid4().hex[:16]}"
    yield f"{postgres_url(server)}?schema={name}"
    drop_schema(server.port, name)


def drop_schema(port: int, name: str) -> None:
    """Remove a schema, with all that is in it, from the server on a port."""
    with psycopg.connect(f"postgresql://postgres@127.0.0.1:{port}/postgres", autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")  # type: ignore[arg-type]
