"""What all shapes share: how a body's fields are read, and pages of lists.

The engines judge what a field may hold, in the sentences that pages show too. So such a field is `Given[...]`: its
type stands in the document, and it reaches the engine as it came. Only what no engine looks at is judged here.
"""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from boards.errors import InvalidInput

Kind = TypeVar("Kind")
JsonObject = Annotated[dict[str, Any], Field(json_schema_extra={"additionalProperties": True})]

MOST: Final = 200  # rows of a page
BIGGEST: Final = 2**31 - 1


class Body(BaseModel):
    """What is sent. A field that is not known is refused, never ignored."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Query(BaseModel):
    """What stands behind the ? of an address; every value comes as text."""

    model_config = ConfigDict(extra="forbid")


class Told(BaseModel):
    """What is answered."""

    model_config = ConfigDict(extra="forbid")


class Paged(Query):
    limit: int = Field(50, ge=1, le=MOST, description="How many at most.")
    cursor: str = Field("", max_length=500, description="`next` of the page before; leave it out for the first.")


def _moment(value: object) -> object:
    """A moment as JSON writes it; whatever else it is goes on as it came, to be refused by its engine."""
    if not isinstance(value, str):
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return value


# The validator returns what it could not read unchanged, so the engine says what is wrong with it.
Moment = Annotated[
    Any, BeforeValidator(_moment), Field(json_schema_extra={"type": ["string", "null"], "format": "date-time"})
]


def checked(shape: type[BaseModel], given: dict[str, Any]) -> Any:
    """`given` in that shape. Raises InvalidInput naming the field and its rule."""
    try:
        return shape.model_validate(given)
    except ValidationError as error:
        raise _refusal(error) from None


def said(body: BaseModel) -> dict[str, Any]:
    """The fields that were sent, by name, and no others."""
    return {name: getattr(body, name) for name in body.model_fields_set}


def _refusal(error: ValidationError) -> InvalidInput:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = [str(part)[:100] for part in first["loc"]]
    field = place[0] if place else ""
    if first["type"] == "extra_forbidden":
        return InvalidInput(f"There is no field {'.'.join(place)} here. Leave it out.", field=field)
    if first["type"] == "missing":
        return InvalidInput(f"{'.'.join(place)} is needed.", field=field)
    return InvalidInput(f"{'.'.join(place) or 'The request'}: {first['msg']}.", field=field)


def cursor_after(*parts: object) -> str:
    """A cursor that says where a page ended; nobody else has to read it."""
    return base64.urlsafe_b64encode("\n".join(str(part) for part in parts).encode()).decode().rstrip("=")


def read_cursor(text: str, count: int) -> list[str]:
    """The parts of a cursor of ours. Raises InvalidInput."""
    try:
        parts = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode().split("\n")
    except (ValueError, binascii.Error):
        parts = []
    if len(parts) != count:
        raise InvalidInput("This cursor is none of ours. Leave it out to begin at the first page.", field="cursor")
    return parts


def key_in(cursor: str) -> int:
    """The row's key in a cursor of one part; 0 for none. Raises InvalidInput."""
    if not cursor:
        return 0
    (part,) = read_cursor(cursor, 1)
    if not (part.isascii() and part.isdigit() and len(part) < 19):
        raise InvalidInput("This cursor is none of ours. Leave it out to begin at the first page.", field="cursor")
    return int(part)
