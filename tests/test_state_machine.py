"""Any sequence of commands: the ledger answers as the model does, and its file agrees.

The seeds are fixed, so that a change is gated by the same sequences each time;
``tools/soak.py`` runs the same machine for longer, on seeds of its own choosing.
"""

import pytest
from machine_rules import QUICK, run_machine, run_twice


@pytest.mark.parametrize("number", range(8))
def test_any_sequence_of_calls_is_answered_as_the_model_answers_it(number: int) -> None:
    """Whatever is called in whatever order: answers, log and tables are the model's."""
    run_machine(number, QUICK)


@pytest.mark.parametrize("number", range(6))
def test_a_command_repeated_at_once_changes_nothing(number: int) -> None:
    """The second of two equal commands writes nothing and answers as the first, but for release."""
    run_twice(number, QUICK)
