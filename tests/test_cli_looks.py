"""A look at a ledger: which task and which point are meant, and that nothing is left behind."""

from pathlib import Path

import pytest
from builders import Clock, opened
from cli_runs import NAMES, contested, idkmesh
from replay_builders import life, unguarded, world
from store_checks import LOCK_FILES, foreign


@pytest.fixture
def contest(path: Path, clock: Clock) -> Path:
    """Give a ledger in which one task has two claims and another has ended."""
    return contested(path, clock)


# Which task, and which point.


@pytest.mark.parametrize("verb", [("show",), ("history",), ("log", "--task")])
@pytest.mark.parametrize(
    ("name", "more", "complaint"),
    [
        ("T-9", (), "expected TASK to be in the log, but T-9 is not"),
        ("acme/apollo/task/T-9", (), "expected TASK to be in the log"),
        ("T-9", ("--scope", "acme/apollo"), "expected TASK to be in the log"),
        ("acme/apollo/T-1", (), "expected TASK to be tenant/project/task/id or an id"),
        ("acme/apollo/job/T-1", (), "expected TASK to be tenant/project/task/id or an id"),
        ("acme/apollo/task/T-1", ("--scope", "a/b"), "expected TASK to be of --scope"),
        ("acme/apollo/task/ T", (), "expected resource_id to be 1-128 letters"),
        ("T 1", ("--scope", "acme/apollo"), "expected resource_id to be 1-128 letters"),
    ],
)
def test_a_name_that_means_no_task_is_usage(
    contest: Path, verb: tuple[str, ...], name: str, more: tuple[str, ...], complaint: str
) -> None:
    """What names no task in the log is refused in one line, and exits 2."""
    ran = idkmesh(verb[0], contest, *verb[1:], name, *more)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"idkmesh {verb[0]}: invalid_input: {complaint}")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("verb", ["log", "tasks"])
@pytest.mark.parametrize("scope", ["acme/gemini", "acme/apoll", "no/such"])
def test_a_scope_of_no_event_is_usage(contest: Path, verb: str, scope: str) -> None:
    """A scope that no event of the log is of is refused in one line, and exits 2."""
    ran = idkmesh(verb, contest, "--scope", scope)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"idkmesh {verb}: invalid_input: expected --scope to be in the log, but {scope} is not\n"
    )


def test_an_id_alone_of_no_event_is_not_followed(contest: Path) -> None:
    """Whose task an id is to be nobody knows before it is there; exit 2."""
    ran = idkmesh("log", contest, "--follow", "--task", "T-9")
    assert (ran.code, ran.out) == (2, "")


@pytest.mark.parametrize("at", [-5, 2**62])
def test_a_last_row_of_a_bad_time_hides_no_other(path: Path, at: int) -> None:
    """Whoever needs only where the log ends reads it, whatever its last row says of time."""
    with unguarded(life(path)) as connection:
        connection.execute("UPDATE events SET at = ? WHERE sequence = 14", (at,))
    assert len(idkmesh("log", path, "--json").out.splitlines()) == 14
    for words in (("show", "T-1", "--at", "12"), ("history", "T-1"), ("seal",)):
        assert idkmesh(words[0], path, *words[1:]).code == 0
    assert idkmesh("verify", path).code == 1


@pytest.mark.parametrize("verb", [("show",), ("history",), ("log", "--task")])
def test_an_id_of_several_scopes_asks_for_one(path: Path, verb: tuple[str, ...]) -> None:
    """Where several scopes have a task of that id, they are named and --scope is asked for."""
    world(path)
    name, *option = verb
    ran = idkmesh(name, path, *option, "T-1")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"idkmesh {name}: invalid_input: expected --scope to say which, but 2 have it: "
        "acme/apollo, acme/gemini\n"
    )
    assert idkmesh(name, path, *option, "T-1", "--scope", "acme/gemini").code == 0


@pytest.mark.parametrize(
    "point", ["yesterday", "-1", "1.5", "2023-11-14T22:13:30.5Z", "@", "@-1", "@1e3", "1969-12-31"]
)
def test_a_point_that_is_none_is_usage(contest: Path, point: str) -> None:
    """What is neither an event's number nor a time of whole seconds exits 2."""
    ran = idkmesh("tasks", contest, "--at", point)
    assert (ran.code, ran.out) == (2, "")
    assert "expected an event's number, an ISO time, or @ and epoch seconds" in ran.err


@pytest.mark.parametrize("given", ["12", "now", "@1.5", "9" * 5000])
def test_a_time_that_is_none_is_usage(contest: Path, given: str) -> None:
    """--since takes times alone, and exits 2 with anything else."""
    ran = idkmesh("log", contest, "--since", given)
    assert (ran.code, ran.out) == (2, "")
    assert "expected an ISO time or @ and epoch seconds" in ran.err


@pytest.mark.parametrize("scope", ["acme", "acme/", "/apollo", "acme/apollo/task", "a b/c"])
def test_a_scope_that_is_none_is_usage(contest: Path, scope: str) -> None:
    """--scope takes a tenant and a project, and exits 2 with anything else."""
    ran = idkmesh("tasks", contest, "--scope", scope)
    assert (ran.code, ran.out) == (2, "")
    assert "expected tenant/project" in ran.err


def test_an_event_behind_the_end_is_usage(contest: Path) -> None:
    """--at refuses the number of an event that the log does not have yet."""
    assert idkmesh("show", contest, "T-1", "--at", 10).code == 0
    ran = idkmesh("show", contest, "T-1", "--at", 11)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith(
        "expected sequence to be an event of the log, but the log ends before it\n"
    )


def test_a_task_that_was_not_there_yet_is_usage(contest: Path) -> None:
    """A task is not shown as of a point before its first event."""
    ran = idkmesh("show", contest, "T-2", "--at", 6)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith(
        "expected TASK to be in the log at that point, but acme/apollo/task/T-2 is not\n"
    )


# What a look leaves behind.

LOOKS: list[tuple[str, ...]] = [
    ("log",),
    ("show", "T-1"),
    ("tasks",),
    ("history", "T-1"),
    ("verify",),
    ("seal",),
    ("export",),
]


@pytest.mark.parametrize("verb", LOOKS, ids=lambda verb: verb[0])
def test_a_look_changes_nothing_and_leaves_no_lock(path: Path, verb: tuple[str, ...]) -> None:
    """A verb that only reads leaves the file as it was, and no lock file beside it."""
    before = life(path).read_bytes()
    assert idkmesh(verb[0], path, *verb[1:]).code == 0
    assert path.read_bytes() == before
    left = {each.name.removeprefix(path.name) for each in path.parent.iterdir()}
    assert left <= {"", "-wal", "-shm"}
    assert left.isdisjoint(LOCK_FILES)


@pytest.mark.parametrize("verb", LOOKS, ids=lambda verb: verb[0])
def test_a_look_waits_for_no_writer(path: Path, clock: Clock, verb: tuple[str, ...]) -> None:
    """A verb that only reads works while somebody else is in the middle of a write."""
    contested(path, clock)
    with opened(path, clock) as ledger, ledger._store.write():
        assert idkmesh(verb[0], path, *verb[1:]).code == 0


@pytest.mark.parametrize("verb", LOOKS, ids=lambda verb: verb[0])
def test_a_look_at_no_ledger_exits_3(tmp_path: Path, verb: tuple[str, ...]) -> None:
    """What cannot be read as a ledger exits 3 with a code and a message, without a traceback."""
    notes = tmp_path / "notes.txt"
    notes.write_text("task T-1 is mine\n", encoding="utf-8")
    for path, code in ((tmp_path / "none", "store_readonly"), (notes, "store_foreign")):
        ran = idkmesh(verb[0], path, *verb[1:])
        assert (ran.code, ran.out) == (3, "")
        assert ran.err.startswith(f"idkmesh {verb[0]}: {code}: expected ")
        assert ran.err.count("\n") == 1
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


def test_any_name_means_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of a test's own ledger is a file's name here, like any other."""
    monkeypatch.chdir(tmp_path)
    assert idkmesh("tasks", ":memory:").code == 3


@pytest.mark.parametrize("verb", NAMES)
@pytest.mark.parametrize("name", ["x" * 501, "\udcff"], ids=ascii)
def test_a_name_that_no_ledger_can_have_is_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, name: str
) -> None:
    """A ledger's name that is too long or no text is refused by every verb; exit 2."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines").touch()
    more = {
        "show": ["T-1"],
        "history": ["T-1"],
        "rebuild": ["new"],
        "backup": ["new"],
        "repair-clock": ["--evidence", "x"],
    }
    arguments = ["lines", name] if verb == "import" else [name, *more.get(verb, [])]
    ran = idkmesh(verb, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "expected target to be a path" in ran.err
    assert [each.name for each in tmp_path.iterdir()] == ["lines"]


def test_a_folder_is_no_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder is refused by the store, by whatever name; exit 3."""
    monkeypatch.chdir(tmp_path)
    for name in (".", "..", "", tmp_path):
        ran = idkmesh("log", name)
        assert (ran.code, ran.out) == (3, "")
        assert ran.err.startswith("idkmesh log: store_")


def test_a_ledger_of_an_earlier_version_can_be_looked_at(path: Path) -> None:
    """An older file is read without being upgraded."""
    older = (Path(__file__).parent / "fixtures" / "ledger-v1.sqlite3").read_bytes()
    path.write_bytes(older)
    for verb in (("log",), ("show", "T-1"), ("tasks",), ("history", "T-1"), ("seal",)):
        assert idkmesh(verb[0], path, *verb[1:]).code == 0
    assert path.read_bytes() == older


def test_damaged_tables_hide_nothing(path: Path, clock: Clock) -> None:
    """What is shown comes from the log alone, whatever became of the tables."""
    contested(path, clock)
    looks: list[tuple[str, tuple[object, ...]]] = [
        ("tasks", ("--at", 10)),
        ("log", ()),
        ("show", ("T-1", "--at", 10)),
    ]
    before = [idkmesh(verb, path, *more) for verb, more in looks]
    assert {ran.code for ran in before} == {0}
    connection = foreign(path)
    connection.execute("DROP TABLE claims")
    connection.close()
    assert [idkmesh(verb, path, *more) for verb, more in looks] == before
