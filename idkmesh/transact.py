"""The one loop in which lock, clock, authority, fold, decision and commit meet.

The order of its steps is the contract's (claims contract, Order of checks). Whatever it
raises before the commit leaves the file as it was, but for one thing: once the caller is
authorized, expiries that are due are recorded before anything is answered, so that no
answer rests on an expiry that a clock set back could undo.
"""

from collections.abc import Callable
from typing import NamedTuple

from idkmesh import clock as clocks
from idkmesh import scalars
from idkmesh.authorization import (
    AUTHORIZED_WITH_APPROVAL,
    ActorContext,
    AuthorizationPolicy,
    AuthorizationRequest,
    authorize,
    require,
    require_identity,
)
from idkmesh.commands.expire import due_expiries
from idkmesh.commands.observe import Observe
from idkmesh.commands.rules import Command
from idkmesh.errors import ClaimError, ErrorCode, InvalidInput
from idkmesh.events.catalog import clock_stream
from idkmesh.events.port import ReadSession, Store, WriteSession
from idkmesh.events.types import Approval, Authority, ClockObserved, TaskEvent
from idkmesh.identity import ScopedResourceRef, TenantScope
from idkmesh.policy import TaskClaimPolicy
from idkmesh.prerequisites import PrerequisiteObservation
from idkmesh.projections import observed, tables
from idkmesh.projections.observations import evolve as evolve_observations
from idkmesh.projections.task import TaskState, evolve
from idkmesh.records import OwnerIdentity
from idkmesh.scalars import Action, DataClass, Risk


class Permission(NamedTuple):
    """What one party to a command needs leave for."""

    action: Action
    actor: ActorContext


class Approver(NamedTuple):
    """Who approves a command, and where that is written down."""

    actor: ActorContext
    reference: str


class Outcome(NamedTuple):
    """What a command left: the task's state, and whether its own event was added."""

    state: TaskState
    changed: bool


class Reading(NamedTuple):
    """What an authorized reader may look at: a consistent point, and the time to judge by."""

    session: ReadSession
    now: int


class Transactor:
    """Runs commands and readings of one ledger.

    Args:
        store: Where the log is.
        policy: Who may do what.
        clock: Epoch seconds on call.
        clock_resolution_seconds: How far time must move before an answer that changes
            nothing is worth a row.
        max_observations: How many prerequisite observations a scope may hold.
    """

    def __init__(
        self,
        store: Store,
        policy: AuthorizationPolicy,
        clock: Callable[[], int],
        *,
        clock_resolution_seconds: int,
        max_observations: int,
    ) -> None:
        self.store = store
        self.policy = policy
        self.clock = clock
        self.clock_resolution_seconds = clock_resolution_seconds
        self.max_observations = max_observations

    def run(
        self,
        task: ScopedResourceRef,
        command: Command | None,
        permissions: tuple[Permission, ...],
        *,
        approver: Approver | None = None,
        offered: TaskClaimPolicy | None = None,
        prepare: Callable[[ReadSession], Command] | None = None,
    ) -> Outcome:
        """Run one command in one transaction.

        Args:
            task: The task that it is about.
            command: What to decide; None only records what is due, or leaves the command to
                ``prepare``.
            permissions: Who needs leave for what; the first is the caller.
            approver: The one approver of all of them, or None.
            offered: The policy that stands in where the task has none yet.
            prepare: Makes the command out of what else the transaction sees; it is called
                once the caller is authorized and what is due has been applied.

        Returns:
            The state behind the command, committed.

        Raises:
            ClaimError: The clock, an identity, the task's policy, the authority or the
                command's own rules refuse, in this order.
            StoreError: The file cannot be used; see ``docs/errors.md``.
        """
        with self.store.write() as session:
            watermark = session.head().at
            now = clocks.now(self.clock, watermark)
            caller = permissions[0]
            require_identity(caller.actor, task.scope, now, caller.action)
            state = tables.load(session, task.key)
            by = self._authorized(task, state.policy or offered, permissions, approver, now)
            events: list[TaskEvent] = []
            if state.policy is not None:
                for expired in due_expiries(now, state):
                    evolve(state, expired, now)
                    events.append(expired)
            refusal: ClaimError | None = None
            changed = False
            if prepare is not None:
                command = prepare(session)
            try:
                own = command.decide(by, now, state) if command is not None else None
            except ClaimError as error:
                refusal = error
            else:
                if own is not None:
                    evolve(state, own, now)
                    events.append(own)
                    changed = True
            if events:
                self._append(session, task, state, now, events)
            elif refusal is None:
                self._observe_clock(session, task.scope, now, watermark)
        if refusal is not None:
            raise refusal
        return Outcome(state, changed)

    def observe(self, observation: PrerequisiteObservation) -> bool:
        """Retain an observation in one transaction.

        Args:
            observation: What was seen; its unit was checked by the caller.

        Returns:
            Whether it became its unit's latest.

        Raises:
            ClaimError: ``invalid_clock``, ``clock_rollback``, ``event_conflict``,
                ``sequence_conflict``, ``event_budget_exhausted``.
            StoreError: The file cannot be used; see ``docs/errors.md``.
        """
        scope = observation.scope
        with self.store.write() as session:
            watermark = session.head().at
            now = clocks.now(self.clock, watermark)
            known = observed.load(session, observation)
            event = Observe(observation).decide(self.max_observations, known)
            if event is None:
                self._observe_clock(session, scope, now, watermark)
                return False
            evolve_observations(known, event)
            session.append(scope.key, known.stream, known.version, now, event)
            observed.save(session, known)
            session.commit()
            return known.latest[event.binding.work_unit_id].event_id == event.event_id

    def view(self, session: ReadSession) -> Reading:
        """Return the reading of a session: its time is read after its point was fixed.

        Raises:
            ClaimError: ``invalid_clock``.
        """
        watermark = session.head().at
        return Reading(session, clocks.at_least(self.clock, watermark))

    def read(self, reading: Reading, task: ScopedResourceRef, actor: ActorContext) -> TaskState:
        """Return a task's state for a reader who may see it.

        Raises:
            ClaimError: An identity's code, ``task_not_configured``, or the authority's code.
        """
        require_identity(actor, task.scope, reading.now, "read")
        state = tables.load(reading.session, task.key)
        permissions = (Permission("read", actor),)
        self._authorized(task, state.policy, permissions, None, reading.now)
        return state

    def require_read(self, scope: TenantScope, actor: ActorContext, now: int) -> None:
        """Do nothing where the actor may read in the scope at all.

        Raises:
            ClaimError: An identity's or the authority's code.
        """
        require(_reading(scope, actor, now, "low", "public"), self.policy)

    def may_read(
        self, scope: TenantScope, actor: ActorContext, now: int, risk: Risk, data: DataClass
    ) -> bool:
        """Say whether the actor may read tasks of a risk and data class in the scope."""
        return authorize(_reading(scope, actor, now, risk, data), self.policy).allowed

    def _authorized(
        self,
        task: ScopedResourceRef,
        terms: TaskClaimPolicy | None,
        permissions: tuple[Permission, ...],
        approver: Approver | None,
        now: int,
    ) -> tuple[Authority, ...]:
        """Ask the kernel for every permission, and write its decisions down."""
        if terms is None:
            message = "expected a configured task, but it has no policy"
            raise ClaimError(ErrorCode.TASK_NOT_CONFIGURED, message)
        parties = tuple(each.actor.principal_id for each in permissions)
        granted = []
        for action, actor in permissions:
            request = AuthorizationRequest(
                scope=task.scope,
                resource=task,
                action=action,
                actor=actor,
                risk=terms.risk,
                data_classification=terms.data_classification,
                now=now,
                approver=None if approver is None else approver.actor,
                other_parties=parties,
            )
            decision = require(request, self.policy)
            used = approver if decision.code == AUTHORIZED_WITH_APPROVAL else None
            granted.append(self._authority(action, actor, decision.code, used))
        return tuple(granted)

    def _authority(
        self, action: Action, actor: ActorContext, code: str, approver: Approver | None
    ) -> Authority:
        approval = None
        if approver is not None:
            approval = Approval(
                principal_id=approver.actor.principal_id,
                issuer=approver.actor.issuer,
                actor_type=approver.actor.actor_type,
                identity_revision=approver.actor.identity_revision,
                reference=approver.reference,
            )
        return Authority(
            action=action,
            code=code,  # type: ignore[arg-type]  # what is allowed has one of the two codes
            policy_id=self.policy.policy_id,
            policy_revision=self.policy.revision,
            actor=owner_of(actor),
            identity_revision=actor.identity_revision,
            approval=approval,
        )

    @staticmethod
    def _append(
        session: WriteSession,
        task: ScopedResourceRef,
        state: TaskState,
        now: int,
        events: list[TaskEvent],
    ) -> None:
        version = state.version - len(events)
        scope = task.scope.key
        for event in events:
            version += 1
            session.append(scope, state.stream, version, now, event)
        tables.save(session, state)
        session.commit()

    def _observe_clock(
        self, session: WriteSession, scope: TenantScope, now: int, watermark: int
    ) -> None:
        """Record the time of an answer that changes nothing, where time has moved."""
        if now < watermark + self.clock_resolution_seconds:
            return
        stream = clock_stream(scope.key)
        version = session.stream_version(stream) + 1
        session.append(scope.key, stream, version, now, ClockObserved())
        session.commit()


def _reading(
    scope: TenantScope, actor: ActorContext, now: int, risk: Risk, data: DataClass
) -> AuthorizationRequest:
    return AuthorizationRequest(
        scope=scope,
        resource=ScopedResourceRef(scope, "project", scope.project_id),
        action="read",
        actor=actor,
        risk=risk,
        data_classification=data,
        now=now,
    )


def owner_of(actor: ActorContext) -> OwnerIdentity:
    """Return the three parts of an actor that own a claim."""
    return OwnerIdentity(
        actor.principal_id,
        actor.issuer,
        actor.actor_type,
    )


def permissions_for(needs: tuple[Action, ...], **actors: object) -> tuple[Permission, ...]:
    """Pair what a command needs with the actors who must have it.

    Args:
        needs: The command's actions.
        actors: By the names of their arguments, in the order of the actions.

    Raises:
        TypeError: One is no ``ActorContext``.
    """
    return tuple(
        Permission(action, scalars.instance(actor, ActorContext, field))
        for action, (field, actor) in zip(needs, actors.items(), strict=True)
    )


def approver_from(actor: object, reference: object) -> Approver | None:
    """Pair an approver with the reference; they come together or not at all.

    Raises:
        InvalidInput: One is missing, or the reference is no identifier (``invalid_input``).
        TypeError: The approver is no ``ActorContext``.
    """
    if actor is None and reference is None:
        return None
    if actor is None or reference is None:
        message = "expected approver and approval_reference together, but one is missing"
        raise InvalidInput(message)
    approver = scalars.instance(actor, ActorContext, "approver")
    return Approver(approver, scalars.principal_id(reference, "approval_reference"))
