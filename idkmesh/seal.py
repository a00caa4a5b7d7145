"""A seal: one short text that commits to a whole log, to be kept where the log is not."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple, Self

from idkmesh.digests import canonical_digest
from idkmesh.errors import InvalidInput
from idkmesh.scalars import END, plain

_FORM: Final = re.compile(rf"idkmesh-seal-v1:(0|[1-9][0-9]{{0,18}}):([0-9a-f]{{64}}){END}")


class Seal(NamedTuple):
    """How many events a log had, and a digest over every scope's number and chain."""

    events: int
    digest: str

    def __str__(self) -> str:
        return f"idkmesh-seal-v1:{self.events}:{self.digest}"

    @classmethod
    def of(cls, events: int, heads: Iterable[tuple[str, int, bytes]]) -> Self:
        """Seal a log.

        Args:
            events: How many events the log has.
            heads: Each scope's last number and chain value.
        """
        content = [[scope, number, link.hex()] for scope, number, link in sorted(heads)]
        return cls(events, canonical_digest(content).removeprefix("sha256:"))

    @classmethod
    def read(cls, text: object) -> Self:
        """Read a seal that was kept.

        Raises:
            InvalidInput: It is no seal (``invalid_input``).
        """
        found = _FORM.match(plain(text, "seal").strip())
        if found is None:
            message = "expected seal to be 'idkmesh-seal-v1:', a count and a digest, but it is not"
            raise InvalidInput(message)
        return cls(int(found[1]), found[2])
