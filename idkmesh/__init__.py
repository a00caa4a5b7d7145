"""IDKMesh: who owns this task right now, and may their result still count?"""

from idkmesh.authorization import ActorContext, AuthorizationPolicy, PolicyRule
from idkmesh.digests import canonical_digest
from idkmesh.errors import ClaimError, ErrorCode, InvalidInput, StoreError
from idkmesh.identity import ScopedResourceRef, TenantScope
from idkmesh.ledger import ClaimLedger
from idkmesh.policy import ClaimBinding, TaskClaimPolicy
from idkmesh.records import TaskClaim

__all__ = [
    "ActorContext",
    "AuthorizationPolicy",
    "ClaimBinding",
    "ClaimError",
    "ClaimLedger",
    "ErrorCode",
    "InvalidInput",
    "PolicyRule",
    "ScopedResourceRef",
    "StoreError",
    "TaskClaim",
    "TaskClaimPolicy",
    "TenantScope",
    "canonical_digest",
]
