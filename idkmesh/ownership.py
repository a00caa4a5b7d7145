"""Owning a claim: asking for it, consenting to it, keeping it alive, and giving it up."""

from typing import Final

from idkmesh import scalars
from idkmesh.authorization import ActorContext
from idkmesh.commands.acknowledge import Acknowledge
from idkmesh.commands.claim import ClaimTask
from idkmesh.commands.progress import Progress
from idkmesh.commands.release import Release
from idkmesh.commands.renew import Renew
from idkmesh.identity import ScopedResourceRef, task_ref
from idkmesh.policy import ClaimBinding
from idkmesh.questions import record
from idkmesh.records import Admitted, TaskClaim
from idkmesh.transact import Transactor, owner_of, permissions_for

_Operation = type[Acknowledge] | type[Renew] | type[Progress] | type[Release]
_OPERATIONS: Final[dict[str, _Operation]] = {
    "acknowledge": Acknowledge,
    "renew": Renew,
    "progress": Progress,
    "release": Release,
}


class Ownership:
    """The half of ``ClaimLedger`` that a claim's owner is behind."""

    transactor: Transactor

    def claim(
        self,
        task: ScopedResourceRef,
        actor: ActorContext,
        *,
        request_id: str,
        binding: ClaimBinding,
    ) -> Admitted:
        """Ask for one attempt at a task; the actor needs ``claim``.

        Args:
            task: The task.
            actor: Who will own the claim.
            request_id: The request's identity within the task: repeat it to repeat the
                request. Non-blank text, at most 512 characters.
            binding: What exactly is worked on.

        Returns:
            The claim, and True where this call was granted it, False where an earlier one
            with the same content was; a replay renews nothing.

        Raises:
            ClaimError: ``invalid_input``, ``invalid_clock``, ``clock_rollback``,
                ``task_not_configured``, ``request_conflict``, ``attempt_budget_exhausted``,
                ``event_budget_exhausted``, ``task_capacity_reserved``.
        """
        task_ref(task)
        permissions = permissions_for(ClaimTask.needs, actor=actor)
        request_id = scalars.free_text(request_id, "request_id")
        scalars.instance(binding, ClaimBinding, "binding")
        command = ClaimTask(task, request_id, owner_of(actor), binding)
        outcome = self.transactor.run(task, command, permissions)
        return Admitted(record(task, outcome.state.claims[request_id]), outcome.changed)

    def acknowledge(
        self, task: ScopedResourceRef, actor: ActorContext, *, request_id: str, epoch: int
    ) -> TaskClaim:
        """Consent to a grant, once; no deadline moves. The actor needs ``claim``.

        Args:
            task: The task.
            actor: The claim's owner.
            request_id: The request that was granted.
            epoch: The claim's fencing number.

        Returns:
            The claim; a second acknowledgement keeps the first time.

        Raises:
            ClaimError: ``invalid_input``, ``invalid_clock``, ``clock_rollback``,
                ``task_not_configured``, ``claim_not_found``, ``stale_claim``,
                ``claim_owner_denied``.
        """
        return self.update_owner(
            task, actor, request_id=request_id, epoch=epoch, operation="acknowledge"
        )

    def renew(
        self, task: ScopedResourceRef, actor: ActorContext, *, request_id: str, epoch: int
    ) -> TaskClaim:
        """Extend the lease, and nothing else. The actor needs ``claim``.

        Args:
            task: The task.
            actor: The claim's owner.
            request_id: The request that was granted.
            epoch: The claim's fencing number.

        Returns:
            The claim, ``lease_until`` at most ``hard_until``.

        Raises:
            ClaimError: As ``acknowledge``, then ``acknowledgement_required``,
                ``event_budget_exhausted``.
        """
        return self.update_owner(task, actor, request_id=request_id, epoch=epoch, operation="renew")

    def progress(
        self, task: ScopedResourceRef, actor: ActorContext, *, request_id: str, epoch: int
    ) -> TaskClaim:
        """Extend the progress window, and nothing else. The actor needs ``claim``.

        Args:
            task: The task.
            actor: The claim's owner.
            request_id: The request that was granted.
            epoch: The claim's fencing number.

        Returns:
            The claim, ``progress_by`` at most ``hard_until``.

        Raises:
            ClaimError: As ``acknowledge``, then ``acknowledgement_required``,
                ``event_budget_exhausted``.
        """
        return self.update_owner(
            task, actor, request_id=request_id, epoch=epoch, operation="progress"
        )

    def release(
        self, task: ScopedResourceRef, actor: ActorContext, *, request_id: str, epoch: int
    ) -> TaskClaim:
        """Withdraw; a reserved execution keeps the slot. The actor needs ``release``.

        Args:
            task: The task.
            actor: The claim's owner.
            request_id: The request that was granted.
            epoch: The claim's fencing number.

        Returns:
            The claim, released.

        Raises:
            ClaimError: As ``acknowledge``; a second release is ``stale_claim``.
        """
        return self.update_owner(
            task, actor, request_id=request_id, epoch=epoch, operation="release"
        )

    def update_owner(
        self,
        task: ScopedResourceRef,
        actor: ActorContext,
        *,
        request_id: str,
        epoch: int,
        operation: str,
    ) -> TaskClaim:
        """Do what the method named by ``operation`` does.

        Args:
            task: The task.
            actor: The claim's owner.
            request_id: The request that was granted.
            epoch: The claim's fencing number.
            operation: acknowledge, renew, progress or release.

        Returns:
            The claim.

        Raises:
            ClaimError: As the method of that name; ``invalid_input`` for another name.
        """
        task_ref(task)
        name = scalars.choice(operation, "operation", _OPERATIONS)
        command = _OPERATIONS[name]
        permissions = permissions_for(command.needs, actor=actor)
        request_id = scalars.free_text(request_id, "request_id")
        request = command(request_id, epoch, owner_of(actor))
        outcome = self.transactor.run(task, request, permissions)
        return record(task, outcome.state.claims[request_id])
