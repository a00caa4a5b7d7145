"""Any sequence of calls at the gate: it answers as the model does, and its file agrees."""

import pytest
from machine_gate_rules import QUICK, run_gate_machine


@pytest.mark.parametrize("number", range(3))
def test_any_sequence_of_calls_at_the_gate_is_answered_as_the_model_answers_it(
    number: int,
) -> None:
    """Whatever is seen and asked in whatever order: answers, log and tables are the model's."""
    calls: list[int] = []
    run_gate_machine(number, QUICK, calls.append)
    assert sum(calls) > 200
