"""Events to JSON text and back, with a gate: what is written is what will be read."""

from typing import Final

import msgspec

from idkmesh.errors import ErrorCode, StoreError
from idkmesh.events.catalog import EVENTS
from idkmesh.events.legacy import UPCASTS, LegacyEvent
from idkmesh.events.types import Event

MAX_BODY_BYTES: Final = 16_384

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Event | LegacyEvent)


class _Tag(msgspec.Struct):
    type: str


_tag_decoder: Final = msgspec.json.Decoder(_Tag)
_TAG_OF: Final = {kind: str(kind.__struct_config__.tag) for kind in (*EVENTS, *UPCASTS)}


def encode(event: Event) -> str:
    """Return an event's body, having decoded it again and found it the same.

    Raises:
        StoreError: The event would not read back as it is (``store_corrupt``): a defect,
            stopped before it reaches the log.
    """
    body = _encoder.encode(event)
    try:
        same = len(body) <= MAX_BODY_BYTES and _decoder.decode(body) == event
    except msgspec.ValidationError:
        same = False
    if not same:
        message = "expected an event that reads back as it was written, but this one does not"
        raise StoreError(ErrorCode.STORE_CORRUPT, message)
    return body.decode()


def decode(body: str) -> Event:
    """Return the event that a body holds, in today's shape.

    Raises:
        StoreError: As ``read``.
    """
    return read(body)[1]


def read(body: str) -> tuple[str, Event]:
    """Return the tag that a body carries, and its event in today's shape.

    Raises:
        StoreError: The body has an unknown tag or field (``store_newer``: a later version
            wrote it), or it is not what this version would have written (``store_corrupt``).
    """
    written = body.encode("utf-8", "surrogatepass")
    if len(written) > MAX_BODY_BYTES:
        message = f"expected an event of at most {MAX_BODY_BYTES} bytes, but it is longer"
        raise StoreError(ErrorCode.STORE_CORRUPT, message)
    try:
        event = _decoder.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise _unreadable(body, str(error)) from error
    if _encoder.encode(event) != written:
        message = "expected an event as it is written here, but the text differs"
        raise StoreError(ErrorCode.STORE_CORRUPT, message)
    kind = type(event)
    upcast = UPCASTS.get(kind)
    return _TAG_OF[kind], event if upcast is None else upcast(event)


def _unreadable(body: str, reason: str) -> StoreError:
    """Tell an event of a later version from a broken one."""
    if reason.startswith("Object contains unknown field"):
        message = "expected an event of this version's shape, but it has a field of a later one"
        return StoreError(ErrorCode.STORE_NEWER, message)
    try:
        tag = _tag_decoder.decode(body).type
    except (msgspec.DecodeError, ValueError, RecursionError):
        tag = None
    if tag is not None and tag not in _TAG_OF.values():
        message = "expected an event type of this version, but it is of a later one"
        return StoreError(ErrorCode.STORE_NEWER, message)
    message = "expected an event of its type's shape, but it breaks it"
    return StoreError(ErrorCode.STORE_CORRUPT, message)
