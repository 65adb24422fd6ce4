"""JSON Schema checks of slot values, by the `jsonschema` library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from offprompt.errors import SchemaError, UsageError
from offprompt.records import Json


def check_schema(name: str, value: Json, schema: Mapping[str, Any]) -> None:
    """Nothing, if the value fits the schema (draft 2020-12 unless `$schema` says otherwise; no remote references).

    Raises   SchemaError naming the first place and rule that it breaks; UsageError if the schema is not one.
    """
    # Imported here: 80 ms that only callers with a schema pay.
    from jsonschema import SchemaError as NotASchemaError  # noqa: PLC0415
    from jsonschema.protocols import Validator  # noqa: PLC0415
    from jsonschema.validators import validator_for  # noqa: PLC0415

    kind: type[Validator] = validator_for(dict(schema))
    try:
        kind.check_schema(dict(schema))
    except NotASchemaError as exc:
        raise UsageError(f"the schema of slot {name!r} is not a JSON Schema: {exc.message}; correct it") from exc
    errors = sorted(
        kind(dict(schema)).iter_errors(value), key=lambda error: [str(step) for step in error.absolute_path]
    )
    if errors:
        first = errors[0]
        path = "/" + "/".join(str(step) for step in first.absolute_path)
        rule = f"{first.validator} {first.validator_value!r}" if first.validator != "properties" else "properties"
        raise SchemaError(name, path, f"it must satisfy {rule[:120]}")
