"""What the gate says of a damaged row, and of more blockers than a message should hold."""

from pathlib import Path

import pytest
from builders import DISPATCHER, SCOPE, START, WORKER, digest, opened, task
from unit_builders import unit

from idkmesh import (
    ClaimError,
    DependencyGraph,
    ExecutorAdmission,
    PrerequisiteObservation,
    StoreError,
    TaskClaimPolicy,
)


def test_a_damaged_observation_row_is_store_corrupt(path: Path) -> None:
    """A row that no observation could have written is the file's fault, not the caller's."""
    graph = DependencyGraph(SCOPE, [unit("research")], {"research": "a" * 40})
    with opened(path, lambda: START) as ledger:
        gate = ExecutorAdmission(graph, ledger)
        gate.observe(
            PrerequisiteObservation(
                scope=SCOPE,
                event_id="seen-1",
                sequence=1,
                binding=graph.bindings["research"],
                state="pending",
                inputs_digest=digest("a"),
            )
        )
        with ledger._store.write() as session:
            session.rows("UPDATE observations SET integrated_revision = 'main'")
            session.commit()
        with pytest.raises(StoreError) as caught:
            gate.observations("research")
        assert caught.value.code == "store_corrupt"


def test_a_message_names_a_few_blockers_and_the_error_all(path: Path) -> None:
    """A unit that requires twenty others is refused in a line that can be read."""
    needs = [f"need-{number:02}" for number in range(20)]
    units = [*(unit(each) for each in needs), unit("whole", *needs)]
    graph = DependencyGraph(SCOPE, units, {each["id"]: "a" * 40 for each in units})
    with opened(path, lambda: START) as ledger:
        ledger.configure_task(task(), DISPATCHER, TaskClaimPolicy())
        with pytest.raises(ClaimError) as caught:
            ExecutorAdmission(graph, ledger).admit("whole", task(), WORKER, request_id="r-1")
    assert caught.value.blockers == tuple(f"prerequisite_missing:{each}" for each in needs)
    assert "need-07, 12 more" in str(caught.value)
    assert "need-08" not in str(caught.value)
