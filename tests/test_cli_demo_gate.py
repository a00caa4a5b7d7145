"""The demo's part about the gate: blocked, admitted on exact inputs, overtaken, all integrated."""

import pytest
from demo_runs import CODE, RESEARCH, REVIEW, TEST, Runs, perform


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Give three performances, played at the same time."""
    return perform(tmp_path_factory.getbasetemp())


def test_blocked_unit_is_refused(runs: Runs) -> None:
    """Whoever asks for coding before research is integrated hears why not, and gets no claim."""
    what = [moment["what"] for moment in runs.document["moments"]]
    assert what.count("blocked") == 2  # coding, and then review
    until = what.index("blocked")
    told = [moment for moment in runs.document["moments"][:until] if moment.get("unit") == CODE]
    blockers = ["prerequisite_missing:trip-import/research-timestamps"]
    assert [(moment["what"], moment.get("code"), moment.get("blockers")) for moment in told] == [
        ("offered", None, None),
        *[("claim_refused", "task_not_ready", blockers)] * 4,
    ]
    assert len({moment["who"] for moment in told[1:]}) == 4
    blocked = runs.document["moments"][until]
    assert (blocked["unit"], blocked["blockers"], blocked["claims"]) == (CODE, blockers, 0)
    assert what[until + 1] == "integrated"


def test_claim_is_on_the_inputs_of_its_time(runs: Runs) -> None:
    """Coding is granted twice, each time on what was last integrated of the research."""
    results = [
        claim["submission_digest"]
        for claim in runs.document["claims"]
        if claim["task"]["resource_id"] == "trip-import.research-timestamps"
    ]
    bound = {
        claim["epoch"]: claim["binding"]["inputs_digest"]
        for claim in runs.document["claims"]
        if claim["task"]["resource_id"] == "trip-import.code-timestamps"
    }
    integrated = [
        moment
        for moment in runs.document["moments"]
        if moment["what"] == "integrated" and moment["unit"] == RESEARCH
    ]
    assert sorted(moment["digest"] for moment in integrated) == sorted(results)
    assert [moment["ready"] for moment in integrated] == [{CODE: bound[1]}, {CODE: bound[2]}]
    assert bound[1] != bound[2]


def test_overtaken_submission_writes_nothing(runs: Runs) -> None:
    """The result on changed inputs is told inputs_changed; the new attempt's is the one kept."""
    told = [
        (moment["what"], moment["epoch"], moment.get("code"))
        for moment in runs.document["moments"]
        if moment.get("unit") == CODE
        and moment["what"] in {"granted", "submitted", "submission_refused"}
    ]
    assert told == [
        ("granted", 1, None),
        ("submission_refused", 1, "inputs_changed"),
        ("granted", 2, None),
        ("submitted", 2, None),
    ]
    kept = [
        (claim["epoch"], claim["submission_digest"] is not None)
        for claim in runs.document["claims"]
        if claim["task"]["resource_id"] == "trip-import.code-timestamps"
    ]
    assert kept == [(1, False), (2, True)]


def test_what_is_ready_is_shown(runs: Runs) -> None:
    """After each integration it is told what can be handed out; after the last one nothing."""
    integrated = [
        (moment["unit"], [*moment["ready"]])
        for moment in runs.document["moments"]
        if moment["what"] == "integrated"
    ]
    assert integrated == [
        (RESEARCH, [CODE]),
        (RESEARCH, [CODE]),
        (CODE, [REVIEW, TEST]),
        (REVIEW, [TEST]),
        (TEST, []),
    ]
    assert runs.document["rebuilt"]["observations"] == 5
