"""Configuring a task: its policy is frozen once."""

from typing import ClassVar

from msgspec import Struct

from idkmesh.commands.rules import refuse
from idkmesh.errors import ErrorCode
from idkmesh.events.types import Authority, PolicyRecord, TaskConfigured
from idkmesh.policy import TaskClaimPolicy
from idkmesh.projections.task import TaskState
from idkmesh.scalars import Action


class Configure(Struct, frozen=True):
    """Freeze a task's policy (claims contract, Order of checks)."""

    needs: ClassVar[tuple[Action, ...]] = ("dispatch",)

    policy: TaskClaimPolicy

    def decide(
        self, by: tuple[Authority, ...], now: int, state: TaskState
    ) -> TaskConfigured | None:
        """An exact replay changes nothing; another policy is refused.

        Raises:
            ClaimError: ``task_policy_conflict``.
        """
        del now
        if state.policy is None:
            return TaskConfigured(by=by[0], policy=PolicyRecord.of(self.policy))
        if state.policy != self.policy:
            refuse(ErrorCode.TASK_POLICY_CONFLICT, "the policy that the task is frozen under")
        return None
