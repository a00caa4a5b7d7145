"""The demo's plans: which act each WorkUnit gets, on what terms, and which units make no story."""

import json
from pathlib import Path

import pytest
from demo_runs import CODE, RESEARCH, REVIEW, TEST, write_units

from idkmesh import InvalidInput
from idkmesh.cli.plans import example_units, make_plans


def test_units_that_stand_alone_are_refused(tmp_path: Path) -> None:
    """The story needs a unit that waits for another's result."""
    folder = write_units(tmp_path / "units", dependencies=[])
    with pytest.raises(InvalidInput, match="expected a WorkUnit that requires another"):
        make_plans(folder)


def test_acts_follow_the_graph(tmp_path: Path) -> None:
    """The first unit that requires another is overtaken, and that other one is raced for."""
    folder = write_units(tmp_path / "units", dependencies=[])
    for name, need in (("02-coding", REVIEW), ("03-testing", CODE)):
        file = folder / f"{name}-timestamps.json"
        unit = json.loads(file.read_text(encoding="utf-8"))
        unit["dependencies"] = [{"work_unit_id": need, "relationship": "requires"}]
        file.write_text(json.dumps(unit), encoding="utf-8")
    assert [(plan.unit, plan.act) for plan in make_plans(folder)] == [
        (RESEARCH, "killed"),
        (REVIEW, "race"),
        (CODE, "overtaken"),
        (TEST, "late"),
    ]


def test_units_of_one_task_are_refused(tmp_path: Path) -> None:
    """Two units whose ids differ by '/' and '.' alone would be one task, and are refused."""
    folder = write_units(tmp_path / "units")
    one = json.loads((folder / "01-research-timestamps.json").read_text(encoding="utf-8"))
    twin = {**one, "id": "trip-import.research-timestamps"}
    (folder / "05-twin.json").write_text(json.dumps(twin), encoding="utf-8")
    with pytest.raises(InvalidInput, match="differ by more than"):
        make_plans(folder)


def test_more_units_are_raced_for(tmp_path: Path) -> None:
    """Whatever units come behind the first four are raced for like the first."""
    folder = write_units(tmp_path / "units")
    one = json.loads((folder / "04-review-timestamps.json").read_text(encoding="utf-8"))
    more = {**one, "id": "trip-import/z"}
    (folder / "05-more.json").write_text(json.dumps(more), encoding="utf-8")
    acts = [(plan.unit, plan.act, plan.policy.concurrent_slots) for plan in make_plans(folder)]
    assert acts[4] == ("trip-import/z", "race", 2)


def test_policy_is_the_units_own(tmp_path: Path) -> None:
    """A task's risk and data class are its WorkUnit's."""
    security = {
        "risk_class": "high",
        "data_classification": "confidential",
        "minimum_worker_trust": "trusted",
        "sandbox_required": True,
    }
    folder = write_units(tmp_path / "units", security=security)
    policies = [plan.policy for plan in make_plans(folder)]
    assert {(each.risk, each.data_classification) for each in policies} == {
        ("high", "confidential")
    }


def test_packaged_units_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy of the examples inside the package is used where it is, else the checkout's."""
    monkeypatch.setattr("importlib.resources.files", lambda _: tmp_path)
    assert example_units().parts[-2:] == ("examples", "work-units")
    (tmp_path / "work-units").mkdir()
    assert example_units() == tmp_path / "work-units"
