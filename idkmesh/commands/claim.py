"""Claiming: one more attempt is admitted into the lowest free slot."""

from typing import ClassVar

from msgspec import Struct

from idkmesh.commands.rules import refuse, require_room
from idkmesh.digests import canonical_digest
from idkmesh.errors import ErrorCode
from idkmesh.events.types import Authority, ClaimGranted, PolicyRecord
from idkmesh.identity import ScopedResourceRef
from idkmesh.policy import ClaimBinding, TaskClaimPolicy
from idkmesh.projections.deadlines import granted
from idkmesh.projections.task import TaskState
from idkmesh.records import OwnerIdentity
from idkmesh.scalars import Action


class ClaimTask(Struct, frozen=True):
    """Ask for a claim (claims contract, Order of checks)."""

    needs: ClassVar[tuple[Action, ...]] = ("claim",)

    task: ScopedResourceRef
    request_id: str
    owner: OwnerIdentity
    binding: ClaimBinding

    def decide(self, by: tuple[Authority, ...], now: int, state: TaskState) -> ClaimGranted | None:
        """A replay gives the retained claim; else attempts, budget and capacity decide.

        Raises:
            ClaimError: ``request_conflict``, ``attempt_budget_exhausted``,
                ``event_budget_exhausted``, ``task_capacity_reserved``.
        """
        digest = request_digest(self.task, self.owner, self.binding, state.terms)
        known = state.claims.get(self.request_id)
        if known is not None:
            if known.request_digest != digest:
                refuse(ErrorCode.REQUEST_CONFLICT, "the content that request_id was used with")
            return None
        if len(state.claims) >= state.terms.max_attempts:
            refuse(ErrorCode.ATTEMPT_BUDGET_EXHAUSTED, "an attempt left (max_attempts)")
        require_room(state)
        slot = state.free_slot()
        if slot is None:
            refuse(ErrorCode.TASK_CAPACITY_RESERVED, "a free slot (concurrent_slots)")
        deadlines = granted(state.terms, now)
        return ClaimGranted(
            by=by[0],
            request_id=self.request_id,
            request_digest=digest,
            slot=slot,
            epoch=state.epochs[slot] + 1,
            binding=self.binding,
            ack_by=deadlines.ack_by,
            lease_until=deadlines.lease_until,
            progress_by=deadlines.progress_by,
            hard_until=deadlines.hard_until,
        )


def request_digest(
    task: ScopedResourceRef,
    owner: OwnerIdentity,
    binding: ClaimBinding,
    policy: TaskClaimPolicy,
) -> str:
    """Return the digest of what a request asks for (claims contract, Order of checks)."""
    terms = PolicyRecord.of(policy)
    return canonical_digest(
        {
            "task": task.to_dict(),
            "owner": owner.to_dict(),
            "binding": binding.to_dict(),
            "policy": {field: getattr(terms, field) for field in terms.__struct_fields__},
        }
    )
