"""What anybody with ``read`` may ask: the questions take no lock and write nothing."""

from collections.abc import Callable, Iterator
from typing import Final, get_args

from idkmesh import scalars
from idkmesh.authorization import ActorContext
from idkmesh.errors import ClaimError, ErrorCode
from idkmesh.events.catalog import task_of
from idkmesh.identity import ScopedResourceRef, TenantScope, task_ref
from idkmesh.policy import TaskClaimPolicy
from idkmesh.projections import tables
from idkmesh.projections.task import Claim, TaskState
from idkmesh.records import OwnerIdentity, TaskClaim
from idkmesh.scalars import ClaimState, Occupancy
from idkmesh.transact import Transactor

_STATES: Final[tuple[ClaimState, ...]] = get_args(ClaimState)
_OCCUPANCIES: Final[tuple[Occupancy, ...]] = get_args(Occupancy)


class Questions:
    """The reading half of ``ClaimLedger``.

    Every question opens its consistent point first and reads the clock after it. While the
    clock is below the watermark, deadlines are judged at the watermark, so that an operator
    can look during a lockout.
    """

    transactor: Transactor

    def peek(self, task: ScopedResourceRef, actor: ActorContext) -> tuple[TaskClaim, ...]:
        """Return what ``snapshot`` would, without a lock or a row. The actor needs ``read``.

        Advisory: a claim past a deadline is shown as expired although nothing records it
        yet. While the clock is below the watermark, deadlines are judged at the watermark.

        Args:
            task: The task.
            actor: The reader.

        Raises:
            ClaimError: ``invalid_input``, ``invalid_clock``, ``task_not_configured``.
        """
        state, now = self._look(task, actor)
        return records(task, state, now)

    def policy(self, task: ScopedResourceRef, actor: ActorContext) -> TaskClaimPolicy:
        """Return the policy that a task is frozen under; read like ``peek``.

        Args:
            task: The task.
            actor: The reader.

        Raises:
            ClaimError: ``invalid_input``, ``invalid_clock``, ``task_not_configured``.
        """
        return self._look(task, actor)[0].terms

    def lookup(self, task: ScopedResourceRef, actor: ActorContext, *, request_id: str) -> TaskClaim:
        """Return the claim of one request; read like ``peek``.

        Args:
            task: The task.
            actor: The reader.
            request_id: The request that was granted.

        Raises:
            ClaimError: ``invalid_input``, ``invalid_clock``, ``task_not_configured``,
                ``claim_not_found``.
        """
        task_ref(task)
        scalars.instance(actor, ActorContext, "actor")
        request_id = scalars.free_text(request_id, "request_id")
        state, now = self._look(task, actor)
        claim = state.claims.get(request_id)
        if claim is None:
            message = "expected a request_id that was granted, but it was not"
            raise ClaimError(ErrorCode.CLAIM_NOT_FOUND, message)
        return record(task, claim, now)

    def survey(
        self,
        scope: TenantScope,
        actor: ActorContext,
        *,
        state: ClaimState | None = None,
        occupancy: Occupancy | None = None,
        overdue: bool | None = None,
        owner: str | None = None,
    ) -> Iterator[TaskClaim]:
        """Iterate over the claims of a scope; read like ``peek``.

        What a coordinator asks after a crash: which claims are overdue, which executions
        are unknown, what does this owner hold. Tasks that the actor may not read are left
        out: those above the actor's clearance, or beyond the policy's rule for reading. The
        claims come by task, slot and epoch, read in pages, so that a long survey holds no
        old snapshot open: each page is one consistent point.

        Args:
            scope: Whose claims.
            actor: The reader, who needs ``read`` in the scope.
            state: Only claims shown in this state: active, released, expired.
            occupancy: Only claims of this occupancy: none, unknown, running, terminal.
            overdue: True for active claims past a deadline that nothing records yet, False
                for all others.
            owner: Only claims of this principal.

        Raises:
            ClaimError: ``invalid_input``, ``invalid_clock``, at the call; while iterating,
                what has changed since: the clock, or the actor's expiry.
        """
        scalars.instance(scope, TenantScope, "scope")
        scalars.instance(actor, ActorContext, "actor")
        wanted = _filter(state=state, occupancy=occupancy, overdue=overdue, owner=owner)
        with self.transactor.store.read() as session:
            now = self.transactor.view(session).now
            self.transactor.require_read(scope, actor, now)
        live = state == "active" or overdue is True or occupancy in {"unknown", "running"}

        def pages() -> Iterator[TaskClaim]:
            place = tables.first_place(scope)
            while True:
                with self.transactor.store.read() as session:
                    now = self.transactor.view(session).now
                    self.transactor.require_read(scope, actor, now)
                    found = tables.page(session, scope, place, live=live)
                classes = {(each.risk, each.data_classification) for each in found}
                readable = {
                    each for each in classes if self.transactor.may_read(scope, actor, now, *each)
                }
                for each in found:
                    if (each.risk, each.data_classification) in readable and wanted(each, now):
                        yield record(task_of(each.stream), each.claim, now)
                if not found:
                    return
                place = (found[-1].stream, found[-1].claim.slot, found[-1].claim.epoch)

        return pages()

    def _look(self, task: ScopedResourceRef, actor: ActorContext) -> tuple[TaskState, int]:
        task_ref(task)
        scalars.instance(actor, ActorContext, "actor")
        with self.transactor.store.read() as session:
            reading = self.transactor.view(session)
            return self.transactor.read(reading, task, actor), reading.now


def _filter(
    *,
    state: str | None,
    occupancy: str | None,
    overdue: bool | None,
    owner: str | None,
) -> Callable[[tables.Surveyed, int], bool]:
    """Check what a survey asks for, and return whether a claim found is wanted at a time."""
    if state is not None:
        state = scalars.choice(state, "state", _STATES)
    if occupancy is not None:
        occupancy = scalars.choice(occupancy, "occupancy", _OCCUPANCIES)
    if overdue is not None:
        scalars.flag(overdue, "overdue")
    if owner is not None:
        owner = scalars.principal_id(owner, "owner")

    def wanted(found: tables.Surveyed, now: int) -> bool:
        claim = found.claim
        due = claim.due(now) is not None
        return (
            (state is None or state == ("expired" if due else claim.state))
            and (occupancy is None or occupancy == claim.occupancy)
            and (overdue is None or overdue == due)
            and (owner is None or owner == claim.principal_id)
        )

    return wanted


def records(
    task: ScopedResourceRef, state: TaskState, now: int | None = None
) -> tuple[TaskClaim, ...]:
    """Return every claim's record, ordered by (created_at, slot, epoch)."""
    return tuple(record(task, claim, now) for claim in state.in_order())


def record(task: ScopedResourceRef, claim: Claim, now: int | None = None) -> TaskClaim:
    """Return a claim's record; with ``now``, shown as expired once a deadline has passed."""
    overdue = now is not None and claim.due(now) is not None
    return TaskClaim(
        task=task,
        request_id=claim.request_id,
        request_digest=claim.request_digest,
        slot=claim.slot,
        epoch=claim.epoch,
        owner=OwnerIdentity(
            claim.principal_id,
            claim.issuer,
            claim.actor_type,
        ),
        binding=claim.binding(),
        state="expired" if overdue else claim.state,
        created_at=claim.created_at,
        acknowledged_at=claim.acknowledged_at,
        ack_by=claim.ack_by,
        lease_until=claim.lease_until,
        progress_by=claim.progress_by,
        hard_until=claim.hard_until,
        occupancy=claim.occupancy,
        operation_id=claim.operation_id,
        execution_reference=claim.execution_reference,
        submission_digest=claim.submission_digest,
    )
