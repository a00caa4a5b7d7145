"""The coordinator's object: one method for each command and each question, and no rules."""

from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, get_args

from idkmesh import clock as clocks
from idkmesh import scalars
from idkmesh.authorization import ActorContext, AuthorizationPolicy
from idkmesh.commands.configure import Configure
from idkmesh.commands.reconcile import Reconcile
from idkmesh.commands.reserve import Reserve
from idkmesh.commands.submit import Submit
from idkmesh.events.files import Target
from idkmesh.events.port import Store
from idkmesh.events.sqlite_store import SqliteStore
from idkmesh.identity import ScopedResourceRef, task_ref
from idkmesh.ownership import Ownership
from idkmesh.policy import TaskClaimPolicy
from idkmesh.projections import tables
from idkmesh.questions import Questions, record, records
from idkmesh.records import Admitted, TaskClaim
from idkmesh.scalars import ExecutionStatus
from idkmesh.transact import Transactor, approver_from, owner_of, permissions_for

_STATUSES: Final[tuple[ExecutionStatus, ...]] = get_args(ExecutionStatus)
_MOST_OBSERVATIONS: Final = 1_000_000_000


class ClaimLedger(Ownership, Questions):
    """Who owns a task right now, and may their result still count? One file's answers.

    Safe to share between threads. A ledger that was carried across a fork answers
    ``store_closed``. Every method that takes an actor raises ``ClaimError`` with an
    identity's or the authority's code where the actor may not, and ``StoreError`` where the
    file cannot be used; a method's own list names the codes beyond those
    (``docs/errors.md`` has all).

    Args:
        store: An opened store.
        authorization_policy: Who may do what; fixed for this object's life.
        clock: Epoch seconds on call, for deterministic tests only; by default the system's
            wall clock with a monotonic floor.
        clock_resolution_seconds: How far time must move, in seconds, before an answer that
            changes nothing leaves a ``ClockObserved``.
        max_observations: How many prerequisite observations a scope may hold before the next
            is refused, 1-1,000,000,000; a limit of this opening, not of the file.

    Attributes:
        transactor: The loop behind every command; the gate runs its own through it.
    """

    def __init__(
        self,
        store: Store,
        authorization_policy: AuthorizationPolicy,
        *,
        clock: Callable[[], int] | None = None,
        clock_resolution_seconds: int = 1,
        max_observations: int = 100_000,
    ) -> None:
        _check_settings(authorization_policy, clock, clock_resolution_seconds, max_observations)
        if not (callable(getattr(store, "read", None)) and callable(getattr(store, "write", None))):
            message = f"expected store to be an opened store, but it is a {type(store).__name__}"
            raise TypeError(message)
        self._store = store
        self.transactor = Transactor(
            store,
            authorization_policy,
            clocks.SystemClock() if clock is None else clock,
            clock_resolution_seconds=clock_resolution_seconds,
            max_observations=max_observations,
        )

    @classmethod
    def open(
        cls,
        target: Target,
        authorization_policy: AuthorizationPolicy | None = None,
        *,
        clock: Callable[[], int] | None = None,
        busy_timeout_seconds: float = 30,
        read_only: bool = False,
        allow_network: bool = False,
        file_mode: int = 0o600,
        clock_resolution_seconds: int = 1,
        max_observations: int = 100_000,
    ) -> Self:
        """Open the ledger in a SQLite file, made if absent, its folders too.

        Args:
            target: The file's path, or ``:memory:`` for a test's own ledger.
            authorization_policy: Who may do what; the enterprise baseline by default.
            clock: Epoch seconds on call, for deterministic tests only.
            busy_timeout_seconds: How long a command waits for its turn in all, 0-86,400
                seconds.
            read_only: Allow only the readers and verification.
            allow_network: Open on a network file system all the same.
            file_mode: The mode of new files: read and write for the owner at least.
            clock_resolution_seconds: How far time must move, in seconds, before an answer
                that changes nothing leaves a ``ClockObserved``.
            max_observations: How many prerequisite observations a scope may hold before the
                next is refused, 1-1,000,000,000.

        Returns:
            The ledger, which is also a context manager that closes it.

        Raises:
            InvalidInput: An option is outside its range, or ``target`` is empty, too long, or
                holds NUL or what is no text (``invalid_input``).
            StoreError: ``store_unsafe``, ``store_foreign``, ``store_newer``,
                ``store_readonly``, ``store_locked``, ``store_full``, ``store_corrupt``.
            TypeError: ``target`` is no path, the policy no ``AuthorizationPolicy``, or the clock
                cannot be called.
        """
        if authorization_policy is None:
            authorization_policy = AuthorizationPolicy.enterprise_baseline()
        _check_settings(authorization_policy, clock, clock_resolution_seconds, max_observations)
        store = SqliteStore.open(
            target,
            busy_timeout_seconds=busy_timeout_seconds,
            read_only=scalars.flag(read_only, "read_only"),
            allow_network=scalars.flag(allow_network, "allow_network"),
            file_mode=scalars.whole(file_mode, "file_mode", 0o600, 0o666),
            refold=tables.rebuild,
        )
        try:
            return cls(
                store,
                authorization_policy,
                clock=clock,
                clock_resolution_seconds=clock_resolution_seconds,
                max_observations=max_observations,
            )
        except BaseException:
            store.close()
            raise

    def close(self) -> None:
        """Close the ledger; every later call answers ``store_closed``. Twice is fine."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Commands.

    def configure_task(
        self,
        task: ScopedResourceRef,
        actor: ActorContext,
        policy: TaskClaimPolicy,
        *,
        approver: ActorContext | None = None,
        approval_reference: str | None = None,
    ) -> bool:
        """Freeze a task's policy; the actor needs ``dispatch``.

        Args:
            task: The task.
            actor: The coordinator's dispatcher.
            policy: The limits, frozen with the first call.
            approver: A distinct approver, where the risk asks for one.
            approval_reference: Where the approval is written down; an identifier.

        Returns:
            True when frozen now, False on an exact replay.

        Raises:
            ClaimError: ``invalid_input``, ``invalid_clock``, ``clock_rollback``,
                ``task_policy_conflict``.
        """
        task_ref(task)
        scalars.instance(policy, TaskClaimPolicy, "policy")
        outcome = self.transactor.run(
            task,
            Configure(policy),
            permissions_for(Configure.needs, actor=actor),
            approver=approver_from(approver, approval_reference),
            offered=policy,
        )
        return outcome.changed

    def reserve_dispatch(
        self,
        task: ScopedResourceRef,
        dispatcher: ActorContext,
        owner: ActorContext,
        *,
        request_id: str,
        epoch: int,
        approver: ActorContext | None = None,
        approval_reference: str | None = None,
    ) -> Admitted:
        """Retain the intent to start an execution, before anything outside is called.

        The dispatcher needs ``dispatch`` and the owner ``execute``.

        Args:
            task: The task.
            dispatcher: Who will start the execution.
            owner: The claim's owner.
            request_id: The request that was granted.
            epoch: The claim's fencing number.
            approver: A distinct approver of both, where the risk asks for one.
            approval_reference: Where the approval is written down; an identifier.

        Returns:
            The claim, and True where this call retained the intent. False never allows a
            second start: reconcile first.

        Raises:
            ClaimError: ``invalid_input``, ``invalid_clock``, ``clock_rollback``,
                ``task_not_configured``, ``claim_not_found``, ``stale_claim``,
                ``claim_owner_denied``, ``acknowledgement_required``.
        """
        task_ref(task)
        permissions = permissions_for(Reserve.needs, dispatcher=dispatcher, owner=owner)
        request_id = scalars.free_text(request_id, "request_id")
        outcome = self.transactor.run(
            task,
            Reserve(request_id, epoch, owner_of(owner)),
            permissions,
            approver=approver_from(approver, approval_reference),
        )
        return Admitted(record(task, outcome.state.claims[request_id]), outcome.changed)

    def reconcile_execution(
        self,
        task: ScopedResourceRef,
        dispatcher: ActorContext,
        *,
        request_id: str,
        epoch: int,
        status: ExecutionStatus,
        evidence_reference: str,
        approver: ActorContext | None = None,
        approval_reference: str | None = None,
    ) -> TaskClaim:
        """Record evidence about an execution, of any claim, ended or not.

        The dispatcher needs ``dispatch``. ``terminal`` means conclusively over, never a
        timeout.

        Args:
            task: The task.
            dispatcher: Who reports.
            request_id: The request that was granted.
            epoch: The claim's fencing number.
            status: running or terminal.
            evidence_reference: Where the evidence is; non-blank text without secrets, at
                most 512 characters.
            approver: A distinct approver, where the risk asks for one.
            approval_reference: Where the approval is written down; an identifier.

        Returns:
            The claim.

        Raises:
            ClaimError: ``invalid_input``, ``invalid_clock``, ``clock_rollback``,
                ``task_not_configured``, ``claim_not_found``, ``stale_claim``,
                ``dispatch_intent_required``, ``terminal_execution_conflict``,
                ``event_budget_exhausted``.
        """
        task_ref(task)
        permissions = permissions_for(Reconcile.needs, dispatcher=dispatcher)
        request_id = scalars.free_text(request_id, "request_id")
        known = scalars.choice(status, "status", _STATUSES)
        evidence = scalars.free_text(evidence_reference, "evidence_reference")
        outcome = self.transactor.run(
            task,
            Reconcile(request_id, epoch, known, evidence),
            permissions,
            approver=approver_from(approver, approval_reference),
        )
        return record(task, outcome.state.claims[request_id])

    def record_submission(
        self,
        task: ScopedResourceRef,
        actor: ActorContext,
        *,
        request_id: str,
        epoch: int,
        artifact_digest: str,
        approver: ActorContext | None = None,
        approval_reference: str | None = None,
    ) -> TaskClaim:
        """Bind the owner's candidate to the claim, once. The actor needs ``execute``.

        Args:
            task: The task.
            actor: The claim's owner.
            request_id: The request that was granted.
            epoch: The claim's fencing number.
            artifact_digest: ``sha256:`` and 64 lowercase hex digits.
            approver: A distinct approver, where the risk asks for one.
            approval_reference: Where the approval is written down; an identifier.

        Returns:
            The claim; the same digest again changes nothing.

        Raises:
            ClaimError: ``invalid_input``, ``invalid_clock``, ``clock_rollback``,
                ``task_not_configured``, ``claim_not_found``, ``stale_claim``,
                ``claim_owner_denied``, ``acknowledgement_required``,
                ``submission_conflict``.
        """
        task_ref(task)
        permissions = permissions_for(Submit.needs, actor=actor)
        request_id = scalars.free_text(request_id, "request_id")
        artifact = scalars.digest(artifact_digest, "artifact_digest")
        outcome = self.transactor.run(
            task,
            Submit(request_id, epoch, owner_of(actor), artifact),
            permissions,
            approver=approver_from(approver, approval_reference),
        )
        return record(task, outcome.state.claims[request_id])

    def snapshot(self, task: ScopedResourceRef, actor: ActorContext) -> tuple[TaskClaim, ...]:
        """Return every claim of a task, after recording what is due. The actor needs ``read``.

        Args:
            task: The task.
            actor: The reader.

        Returns:
            The claims, ordered by (created_at, slot, epoch).

        Raises:
            ClaimError: ``invalid_input``, ``invalid_clock``, ``clock_rollback``,
                ``task_not_configured``.
        """
        task_ref(task)
        outcome = self.transactor.run(task, None, permissions_for(("read",), actor=actor))
        return records(task, outcome.state)

    # Upkeep.

    def rebuild(self) -> None:
        """Drop the tables and refold them from the log, in one transaction.

        Raises:
            StoreError: The log does not fold (``store_corrupt``, ``store_newer``), or the
                file cannot be written; the tables are then as they were, but perhaps with
                ``outcome_unknown``.
        """
        with self._store.write() as session:
            tables.rebuild(session)
            session.commit()


def _check_settings(
    policy: object, clock: object, clock_resolution_seconds: object, max_observations: object
) -> None:
    """Refuse what a ledger cannot work with, before any file is touched."""
    scalars.instance(policy, AuthorizationPolicy, "authorization_policy")
    clocks.require_callable(clock)
    scalars.whole(
        clock_resolution_seconds, "clock_resolution_seconds", 1, scalars.MAX_WINDOW_SECONDS
    )
    scalars.whole(max_observations, "max_observations", 1, _MOST_OBSERVATIONS)
