"""Reconciling an execution: evidence says that it runs, or that it has ended for good."""

from typing import ClassVar

from msgspec import Struct

from idkmesh.commands.rules import named, refuse
from idkmesh.errors import ErrorCode
from idkmesh.events.types import Authority, ExecutionReconciled
from idkmesh.projections.task import RESERVED_RECONCILIATIONS, TaskState
from idkmesh.scalars import Action, ExecutionStatus


class Reconcile(Struct, frozen=True):
    """Record evidence about an execution (claims contract, Slots and occupancy)."""

    needs: ClassVar[tuple[Action, ...]] = ("dispatch",)

    request_id: str
    epoch: object
    status: ExecutionStatus
    evidence_reference: str

    def decide(
        self, by: tuple[Authority, ...], now: int, state: TaskState
    ) -> ExecutionReconciled | None:
        """Any historical claim may be reconciled; the end of an execution is never undone.

        Raises:
            ClaimError: ``claim_not_found``, ``stale_claim``, ``dispatch_intent_required``,
                ``terminal_execution_conflict``, ``event_budget_exhausted``.
        """
        del now
        claim = named(state, self.request_id, self.epoch)
        if claim.occupancy == "none":
            refuse(ErrorCode.DISPATCH_INTENT_REQUIRED, "a reserved execution")
        known = (claim.occupancy, claim.execution_reference)
        if known == (self.status, self.evidence_reference):
            return None
        if claim.occupancy == "terminal":
            refuse(ErrorCode.TERMINAL_EXECUTION_CONFLICT, "the evidence of the recorded end")
        from_reserve = self.status != "terminal" and state.only_endings_left
        if from_reserve and claim.reconciled_from_reserve >= RESERVED_RECONCILIATIONS:
            refuse(ErrorCode.EVENT_BUDGET_EXHAUSTED, "room in the event budget (max_events)")
        return ExecutionReconciled(
            by=by[0],
            slot=claim.slot,
            epoch=claim.epoch,
            status=self.status,
            evidence_reference=self.evidence_reference,
            from_reserve=from_reserve,
        )
