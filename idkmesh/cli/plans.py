"""What the demo is about: WorkUnits out of files, each with the act that is played on it."""

from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct

import idkmesh
from idkmesh import ActorContext, InvalidInput, ScopedResourceRef, TaskClaimPolicy, TenantScope
from idkmesh.graph import DependencyGraph
from idkmesh.scalars import ActorType
from idkmesh.workunit_files import load_work_units

Act = Literal["race", "overtaken", "killed", "late"]

SCOPE: Final = TenantScope("idkmesh-demo", "work-units")
WORKERS: Final = ("ada", "bruno", "chen", "dilek")
APPROVAL: Final = "demo/approval"
MIN_UNITS: Final = 4  # one for each act
MAX_UNITS: Final = 12
RACE_SLOTS: Final = 2

# The demo works on no source tree, so every unit without a revision is bound to this one.
_MADE_UP_REVISION: Final = "5eed" * 10
_ATTEMPTS: Final = 8
_BRISK: Final = 3  # seconds: the lease of a claim that the story lets run out
_EASY: Final = 10  # seconds: every other window
_HARD: Final = 60


class Plan(Struct, frozen=True, kw_only=True):
    """One WorkUnit's part in the story.

    Attributes:
        number: Its place in the story, from 1.
        unit: The WorkUnit's id.
        content: All of the WorkUnit.
        revision: The source revision that it is bound to.
        requires: The units that must be integrated before it.
        act: What happens on it.
        task: The task that stands for it in the ledger.
        policy: The limits of its claims.
    """

    number: int
    unit: str
    content: dict[str, Any]
    revision: str
    requires: tuple[str, ...]
    act: Act
    task: ScopedResourceRef
    policy: TaskClaimPolicy


def make_plans(folder: Path | None = None) -> tuple[Plan, ...]:
    """Read a folder's WorkUnits and give each its act, prerequisites first.

    Args:
        folder: Holds one WorkUnit a ``*.json`` file; the examples by default.

    Raises:
        InvalidInput: A file is no WorkUnit, there are too few or too many, none requires
            another, or two would be the same task (``invalid_input``).
        ClaimError: The units do not fit each other; the code is the graph's.
    """
    loaded = load_work_units(folder or example_units())
    if not MIN_UNITS <= len(loaded) <= MAX_UNITS:
        message = f"expected {MIN_UNITS} to {MAX_UNITS} WorkUnits, but there are {len(loaded)}"
        raise InvalidInput(message)
    units = {each["id"]: each for each in loaded}
    revisions = {
        unit: each["provenance"].get("source_revision", _MADE_UP_REVISION)
        for unit, each in units.items()
    }
    graph = DependencyGraph(SCOPE, loaded, revisions)
    acts = _acts(graph)
    plans = tuple(
        Plan(
            number=number,
            unit=unit,
            content=units[unit],
            revision=revisions[unit],
            requires=graph.requires[unit],
            act=acts[unit],
            task=ScopedResourceRef(SCOPE, "task", unit.replace("/", ".")),
            policy=_policy(units[unit]["security"], acts[unit]),
        )
        for number, unit in enumerate(graph.order, 1)
    )
    if len({plan.task for plan in plans}) < len(plans):
        message = "expected ids that differ by more than '/' and '.', but two do not"
        raise InvalidInput(message)
    return plans


def graph_of(plans: tuple[Plan, ...]) -> DependencyGraph:
    """Return the graph of the plans' units, the same in whatever process it is made."""
    revisions = {plan.unit: plan.revision for plan in plans}
    return DependencyGraph(SCOPE, [plan.content for plan in plans], revisions)


def example_units() -> Path:
    """Return the folder of the example WorkUnits: the packaged copy, or the checkout's."""
    packaged = Path(str(resources.files("idkmesh.cli"))) / "work-units"
    if packaged.is_dir():
        return packaged
    return Path(idkmesh.__file__).parents[1] / "examples" / "work-units"


def worker(name: str) -> ActorContext:
    """Return a worker's identity; made up, like all of the demo's."""
    return _actor(name, "node", "worker")


def dispatcher() -> ActorContext:
    """Return the identity of the coordinator that configures, reserves and reconciles."""
    return _actor("coordinator", "service", "dispatcher")


def approver() -> ActorContext:
    """Return the human who approves what a WorkUnit's risk puts above one party's say."""
    return _actor("approver", "human", "admin")


def _actor(name: str, actor_type: ActorType, role: str) -> ActorContext:
    return ActorContext(
        principal_id=name,
        actor_type=actor_type,
        issuer="idkmesh-demo",
        roles=frozenset({role}),
        scopes=frozenset({SCOPE}),
        data_clearance="restricted",
        identity_revision="1",
    )


def _acts(graph: DependencyGraph) -> dict[str, Act]:
    """Give every unit its act.

    The first that requires another is overtaken by the second of two results of that other,
    which is therefore raced for.
    """
    overtaken = next((unit for unit in graph.order if graph.requires[unit]), None)
    if overtaken is None:
        message = "expected a WorkUnit that requires another, but there is none"
        raise InvalidInput(message)
    raced = graph.requires[overtaken][0]
    acts: dict[str, Act] = dict.fromkeys(graph.order, "race")
    others = [unit for unit in graph.order if unit not in {overtaken, raced}]
    return acts | {overtaken: "overtaken", others[0]: "killed", others[1]: "late"}


def _policy(security: dict[str, str], act: Act) -> TaskClaimPolicy:
    """Return short deadlines, under the WorkUnit's own risk and data class."""
    competing = act == "race"
    return TaskClaimPolicy(
        concurrent_slots=RACE_SLOTS if competing else 1,
        competition_reason="two results are compared" if competing else None,
        max_attempts=_ATTEMPTS,
        ack_seconds=_EASY,
        lease_seconds=_BRISK if act in {"killed", "late"} else _EASY,
        progress_seconds=_EASY,
        hard_seconds=_HARD,
        risk=security["risk_class"],  # type: ignore[arg-type]  # the loader has checked both
        data_classification=security["data_classification"],  # type: ignore[arg-type]  # as above
    )
