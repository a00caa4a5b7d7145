"""Who owns a task: the tenant's scope and the reference that names a resource in it."""

from typing import Final

from msgspec import Struct
from msgspec.structs import force_setattr

from idkmesh import scalars
from idkmesh.errors import InvalidInput
from idkmesh.scalars import ResourceType, ScopeId

TASK: Final = "task"


class TenantScope(Struct, frozen=True, forbid_unknown_fields=True):
    """A tenant's project: the boundary that nothing crosses (claims contract, Identity).

    Args:
        tenant_id: 1-128 letters, digits, ``.``, ``_`` or ``-``, the first a letter or digit.
        project_id: The same.

    Raises:
        InvalidInput: A part breaks its pattern (``invalid_input``).
    """

    tenant_id: ScopeId
    project_id: ScopeId

    def __post_init__(self) -> None:
        force_setattr(self, "tenant_id", scalars.scope_id(self.tenant_id, "tenant_id"))
        force_setattr(self, "project_id", scalars.scope_id(self.project_id, "project_id"))

    def to_dict(self) -> dict[str, str]:
        """Return the scope's JSON record."""
        return {"tenant_id": self.tenant_id, "project_id": self.project_id}

    @property
    def key(self) -> str:
        """The scope's storage key; no part may hold ``/``, so no two scopes share one."""
        return f"{self.tenant_id}/{self.project_id}"


class ScopedResourceRef(Struct, frozen=True, forbid_unknown_fields=True):
    """A resource in a scope; with ``resource_type`` "task", the identity of a task.

    Args:
        scope: The tenant's project that the resource belongs to.
        resource_type: 1-64 lowercase letters, digits, ``.``, ``_`` or ``-``, a letter first.
        resource_id: As the ids of a scope. Nothing else is part of a task's identity.

    Raises:
        InvalidInput: A part breaks its pattern (``invalid_input``).
        TypeError: ``scope`` is no ``TenantScope``.
    """

    scope: TenantScope
    resource_type: ResourceType
    resource_id: ScopeId

    def __post_init__(self) -> None:
        scalars.instance(self.scope, TenantScope, "scope")
        kind = scalars.resource_type(self.resource_type, "resource_type")
        force_setattr(self, "resource_type", kind)
        force_setattr(self, "resource_id", scalars.scope_id(self.resource_id, "resource_id"))

    @property
    def key(self) -> str:
        """The resource's storage key, which is also the name of a task's event stream."""
        scope = self.scope
        return f"{scope.tenant_id}/{scope.project_id}/{self.resource_type}/{self.resource_id}"

    def to_dict(self) -> dict[str, str]:
        """Return the reference's JSON record."""
        return {
            "kind": "idkmesh-enterprise-resource-ref",
            "schema_version": "0.1",
            "tenant_id": self.scope.tenant_id,
            "project_id": self.scope.project_id,
            "resource_type": self.resource_type,
            "resource_id": self.resource_id,
        }


def task_ref(value: object) -> ScopedResourceRef:
    """Return ``value`` where it is the reference of a task.

    Raises:
        InvalidInput: It refers to another type of resource (``invalid_input``).
        TypeError: It is no ``ScopedResourceRef``.
    """
    reference = scalars.instance(value, ScopedResourceRef, "task")
    if reference.resource_type != TASK:
        message = "expected task to have resource_type 'task', but it has another"
        raise InvalidInput(message)
    return reference


def task_from_key(key: str) -> ScopedResourceRef:
    """Return the reference that a task's storage key names; the inverse of ``key``."""
    tenant_id, project_id, resource_type, resource_id = key.split("/")
    return ScopedResourceRef(TenantScope(tenant_id, project_id), resource_type, resource_id)
