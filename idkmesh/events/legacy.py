"""Events of earlier versions, for ever: how each was shaped, and its way up to today's.

A class moves here when its shape changes. An upcast is pure and knows nothing but the old
event, so that an old log always folds to the same state.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from idkmesh.events.types import Authority, Event, ExecutionReconciled
from idkmesh.scalars import Epoch, ExecutionStatus, FreeText, Slot


class ExecutionReconciledV0(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag="execution.reconciled.v0",
):
    """Evidence about an execution, from before the log said what used the reserve."""

    by: Authority
    slot: Slot
    epoch: Epoch
    status: ExecutionStatus
    evidence_reference: FreeText


LegacyEvent = ExecutionReconciledV0


def _reconciled(event: ExecutionReconciledV0) -> ExecutionReconciled:
    return ExecutionReconciled(
        by=event.by,
        slot=event.slot,
        epoch=event.epoch,
        status=event.status,
        evidence_reference=event.evidence_reference,
        from_reserve=False,
    )


UPCASTS: Final[dict[type[Struct], Callable[[Any], Event]]] = {
    ExecutionReconciledV0: _reconciled,
}
