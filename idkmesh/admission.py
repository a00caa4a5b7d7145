"""Executor admission: the gate that ties a claim to the inputs that made its unit ready."""

from collections.abc import Callable

from idkmesh import scalars
from idkmesh.authorization import ActorContext
from idkmesh.commands.admit import Admit
from idkmesh.commands.fence import OnSameInputs
from idkmesh.commands.reserve import Reserve
from idkmesh.commands.rules import Command
from idkmesh.commands.submit import Submit
from idkmesh.errors import ClaimError, ErrorCode
from idkmesh.events.port import ReadSession
from idkmesh.graph import DependencyGraph
from idkmesh.identity import ScopedResourceRef, task_ref
from idkmesh.ledger import ClaimLedger
from idkmesh.prerequisites import PrerequisiteObservation
from idkmesh.projections import observed
from idkmesh.projections.readiness import Inputs, TaskReadiness, inputs_of, resolve
from idkmesh.questions import record
from idkmesh.records import Admission, AdmissionRecord, Phase
from idkmesh.transact import Approver, Permission, approver_from, owner_of, permissions_for


class ExecutorAdmission:
    """Readiness, binding and claim decided in one transaction, by any number of processes.

    Observations live in the ledger, so every coordinator of the scope that has the same
    graph decides alike, after restarts too. The order of checks is the ledger's: who may
    not act learns nothing about readiness. A gate refusal writes nothing of its own.

    Args:
        graph: The units and what they require.
        ledger: Where observations and claims are kept.

    Raises:
        TypeError: An argument is of another type.
    """

    def __init__(self, graph: DependencyGraph, ledger: ClaimLedger) -> None:
        self.graph = scalars.instance(graph, DependencyGraph, "graph")
        self._ledger = scalars.instance(ledger, ClaimLedger, "ledger")

    def observe(self, observation: PrerequisiteObservation) -> bool:
        """Retain what a trusted adapter saw of one unit.

        Args:
            observation: What was seen, of any binding of a unit of the graph.

        Returns:
            True when it became the unit's latest; False when it is an exact redelivery or
            older than the latest, which is kept all the same.

        Raises:
            ClaimError: ``scope_mismatch``, ``unknown_work_unit``, ``invalid_clock``,
                ``clock_rollback``, ``event_conflict``, ``sequence_conflict``,
                ``event_budget_exhausted``; nothing is written then.
            StoreError: The file cannot be used.
            TypeError: It is no ``PrerequisiteObservation``.
        """
        scalars.instance(observation, PrerequisiteObservation, "observation")
        if observation.scope != self.graph.scope:
            raise _other_scope()
        self.graph.require(observation.binding.work_unit_id)
        return self._ledger.transactor.observe(observation)

    def admit(
        self, node: str, task: ScopedResourceRef, worker: ActorContext, *, request_id: str
    ) -> Admission:
        """Claim a unit's task on the inputs that it has now. The worker needs ``claim``.

        Args:
            node: The unit's id in the graph.
            task: The task's identity, in the graph's scope.
            worker: Who will own the claim.
            request_id: The request's identity within the task.

        Returns:
            The claim, bound to the unit's digest, revision and inputs, and its record. An
            exact replay gives the retained claim.

        Raises:
            ClaimError: ``unknown_work_unit``, ``invalid_input``, ``scope_mismatch``; an
                identity's or the authority's code; ``task_not_configured``,
                ``task_already_integrated``, ``task_not_ready`` (with ``blockers``); then as
                ``ClaimLedger.claim``.
            StoreError: The file cannot be used.
        """
        self._check(node, task)
        permissions = permissions_for(Admit.needs, worker=worker)
        request_id = scalars.free_text(request_id, "request_id")
        owner = owner_of(worker)
        return self._run(
            "admission",
            node,
            task,
            request_id=request_id,
            command_on=lambda inputs: Admit(task, request_id, owner, inputs),
            permissions=permissions,
        )

    def reserve_execution(
        self,
        node: str,
        task: ScopedResourceRef,
        dispatcher: ActorContext,
        owner: ActorContext,
        *,
        request_id: str,
        epoch: int,
        approver: ActorContext | None = None,
        approval_reference: str | None = None,
    ) -> Admission:
        """Retain the intent to start an execution, where the claim's inputs still stand.

        The dispatcher needs ``dispatch`` and the owner ``execute``.

        Args:
            node: The unit's id in the graph.
            task: The task.
            dispatcher: Who will start the execution.
            owner: The claim's owner.
            request_id: The request that was granted.
            epoch: The claim's fencing number.
            approver: A distinct approver of both, where the risk asks for one.
            approval_reference: Where the approval is written down; an identifier.

        Returns:
            The claim and its record; ``record.created`` is False for a retained intent.

        Raises:
            ClaimError: ``unknown_work_unit``, ``invalid_input``, ``scope_mismatch``; an
                identity's or the authority's code; ``task_not_configured``,
                ``claim_not_found``, ``binding_mismatch``, ``inputs_changed``; then as
                ``ClaimLedger.reserve_dispatch``.
            StoreError: The file cannot be used.
        """
        self._check(node, task)
        permissions = permissions_for(Reserve.needs, dispatcher=dispatcher, owner=owner)
        request_id = scalars.free_text(request_id, "request_id")
        command = Reserve(request_id, epoch, owner_of(owner))
        return self._run(
            "execution-reservation",
            node,
            task,
            request_id=request_id,
            command_on=lambda inputs: OnSameInputs(inputs, command),
            permissions=permissions,
            approver=approver_from(approver, approval_reference),
        )

    def submit(
        self,
        node: str,
        task: ScopedResourceRef,
        owner: ActorContext,
        *,
        request_id: str,
        epoch: int,
        artifact_digest: str,
        approver: ActorContext | None = None,
        approval_reference: str | None = None,
    ) -> Admission:
        """Bind the owner's candidate to the claim, where its inputs still stand.

        The owner needs ``execute``.

        Args:
            node: The unit's id in the graph.
            task: The task.
            owner: The claim's owner.
            request_id: The request that was granted.
            epoch: The claim's fencing number.
            artifact_digest: ``sha256:`` and 64 lowercase hex digits.
            approver: A distinct approver, where the risk asks for one.
            approval_reference: Where the approval is written down; an identifier.

        Returns:
            The claim and its record; ``record.created`` is False for the same digest again.

        Raises:
            ClaimError: ``unknown_work_unit``, ``invalid_input``, ``scope_mismatch``; an
                identity's or the authority's code; ``task_not_configured``,
                ``claim_not_found``, ``binding_mismatch``, ``inputs_changed``; then as
                ``ClaimLedger.record_submission``.
            StoreError: The file cannot be used.
        """
        self._check(node, task)
        permissions = permissions_for(Submit.needs, owner=owner)
        request_id = scalars.free_text(request_id, "request_id")
        artifact = scalars.digest(artifact_digest, "artifact_digest")
        command = Submit(request_id, epoch, owner_of(owner), artifact)
        return self._run(
            "submission",
            node,
            task,
            request_id=request_id,
            command_on=lambda inputs: OnSameInputs(inputs, command),
            permissions=permissions,
            approver=approver_from(approver, approval_reference),
        )

    def readiness(self, node: str) -> TaskReadiness:
        """Return whether a unit can be worked on now; advisory, no lock is taken.

        Args:
            node: The unit's id in the graph.

        Raises:
            ClaimError: ``unknown_work_unit``, ``invalid_input``.
            StoreError: The file cannot be used.
        """
        ancestors = self.graph.ancestors(node)
        with self._ledger.transactor.store.read() as session:
            latest = observed.latest(session, self.graph.scope, ancestors)
        return resolve(self.graph, ancestors, latest)[ancestors[-1]]

    def ready_units(self) -> tuple[str, ...]:
        """Return the ids that are ready and not satisfied, sorted: what can be handed out.

        Raises:
            StoreError: The file cannot be used.
        """
        with self._ledger.transactor.store.read() as session:
            latest = observed.all_latest(session, self.graph.scope)
        resolved = resolve(self.graph, self.graph.order, latest)
        return tuple(
            sorted(unit for unit, known in resolved.items() if known.ready and not known.satisfied)
        )

    def observations(self, node: str) -> tuple[PrerequisiteObservation, ...]:
        """Return the retained observations of one unit, oldest first by their sequence.

        Args:
            node: The unit's id in the graph.

        Raises:
            ClaimError: ``unknown_work_unit``, ``invalid_input``.
            StoreError: The file cannot be used.
        """
        unit = self.graph.require(node)
        with self._ledger.transactor.store.read() as session:
            return observed.of_unit(session, self.graph.scope, unit)

    def _check(self, node: object, task: object) -> None:
        """Refuse what needs no lock to be refused."""
        self.graph.require(node)
        if task_ref(task).scope != self.graph.scope:
            raise _other_scope()

    def _run(
        self,
        phase: Phase,
        node: str,
        task: ScopedResourceRef,
        *,
        request_id: str,
        command_on: Callable[[Inputs], Command],
        permissions: tuple[Permission, ...],
        approver: Approver | None = None,
    ) -> Admission:
        """Run one phase; what it rests on is read inside its own transaction."""
        ancestors = self.graph.ancestors(node)
        seen: list[Inputs] = []

        def prepare(session: ReadSession) -> Command:
            latest = observed.latest(session, self.graph.scope, ancestors)
            seen.append(inputs_of(self.graph, ancestors, latest))
            return command_on(seen[0])

        outcome = self._ledger.transactor.run(
            task, None, permissions, approver=approver, prepare=prepare
        )
        claim = record(task, outcome.state.claims[request_id])
        made = AdmissionRecord(
            phase=phase,
            scope=self.graph.scope,
            graph_digest=self.graph.digest,
            observation_digest=seen[0].observation_digest,
            binding=seen[0].binding,
            inputs_digest=claim.binding.inputs_digest,
            created=outcome.changed,
            claim=claim,
        )
        return Admission(claim, made)


def _other_scope() -> ClaimError:
    message = "expected the scope of the graph, but it is another"
    return ClaimError(ErrorCode.SCOPE_MISMATCH, message)
