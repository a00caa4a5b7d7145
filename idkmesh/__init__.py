"""IDKMesh: who owns this task right now, and may their result still count?"""

from idkmesh.admission import ExecutorAdmission
from idkmesh.authorization import ActorContext, AuthorizationPolicy, PolicyRule
from idkmesh.digests import canonical_digest
from idkmesh.errors import ClaimError, ErrorCode, InvalidInput, StoreError
from idkmesh.graph import DependencyGraph
from idkmesh.identity import ScopedResourceRef, TenantScope
from idkmesh.ledger import ClaimLedger
from idkmesh.policy import ClaimBinding, TaskClaimPolicy
from idkmesh.prerequisites import PrerequisiteObservation, WorkUnitSourceBinding
from idkmesh.projections.readiness import TaskReadiness
from idkmesh.records import AdmissionRecord, TaskClaim
from idkmesh.workunit_files import load_work_units

__all__ = [
    "ActorContext",
    "AdmissionRecord",
    "AuthorizationPolicy",
    "ClaimBinding",
    "ClaimError",
    "ClaimLedger",
    "DependencyGraph",
    "ErrorCode",
    "ExecutorAdmission",
    "InvalidInput",
    "PolicyRule",
    "PrerequisiteObservation",
    "ScopedResourceRef",
    "StoreError",
    "TaskClaim",
    "TaskClaimPolicy",
    "TaskReadiness",
    "TenantScope",
    "WorkUnitSourceBinding",
    "canonical_digest",
    "load_work_units",
]
