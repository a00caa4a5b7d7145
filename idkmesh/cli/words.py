"""The demo's moments in words: for each what it is called, what it means, and how it looks."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from idkmesh.cli.plans import Act, Plan
from idkmesh.cli.story import Moment, Story, What
from idkmesh.errors import ErrorCode
from idkmesh.naming import shown
from idkmesh.records import TaskClaim

_DIGEST_SHOWN: Final = 15

# What each colour says, in every line and in the table.
WON: Final = "green"
REFUSED: Final = "red"
UNSURE: Final = "yellow"
OVER: Final = "dim"
PLAIN: Final = ""

LEGEND: Final = (
    ("●", "holds a claim", WON),
    ("✓", "counts", WON),
    ("✗", "refused or dead", REFUSED),
    ("?", "may be running", UNSURE),
    ("○", "over", OVER),
)

HEADINGS: Final[dict[Act, str]] = {
    "race": "Everybody wants it. Each slot has one winner, and the others are refused.",
    "overtaken": "The winner's inputs change: it is refused. Only evidence frees the slot.",
    "killed": "The winner is killed at work. Nobody tells the ledger; its lease runs out.",
    "late": "The winner falls asleep. When it hands in, somebody else has taken over.",
}

_REFUSED_FOR: Final[dict[str, str]] = {
    ErrorCode.INPUTS_CHANGED: "is outdated",
    ErrorCode.STALE_CLAIM: "came too late",
}


class Line(NamedTuple):
    """How one moment is told: a sign, a word, its colour, and the rest of the sentence."""

    sign: str
    word: str
    colour: str
    rest: str


def line(story: Story, moment: Moment) -> Line | None:
    """Return how the story's last moment is told, or None where it goes without saying."""
    tell = _TOLD.get(moment.what)
    return None if tell is None else tell(story, moment)


class Fate(NamedTuple):
    """What became of a claim: a sign, a few words, and their colour."""

    sign: str
    words: str
    colour: str


def fate(story: Story, claim: TaskClaim) -> Fate:
    """Return what became of a claim, for the table at the end."""
    told = {
        moment.what: moment
        for moment in story.moments
        if moment.request_id == claim.request_id and story.claim(moment) == claim
    }
    if claim.submission_digest is not None:
        return Fate("✓", "handed in", WON)
    if "killed" in told:
        return Fate("✗", "killed at work", REFUSED)
    if "submission_refused" in told:
        return Fate("✗", _why(told["submission_refused"]), REFUSED)
    return Fate("○", "without a result", OVER)


def brief(plans: Sequence[Plan]) -> dict[str, str]:
    """Return each unit's name for the table: the last part of its id, where that is enough."""
    last = {plan.unit: plan.unit.rpartition("/")[2] for plan in plans}
    return last if len(set(last.values())) == len(last) else {unit: unit for unit in last}


def short(digest: str) -> str:
    """Return as much of a digest as a reader compares."""
    return digest[:_DIGEST_SHOWN] + "…"


def _place(moment: Moment) -> str:
    return f"slot {moment.slot} epoch {moment.epoch}"


def _earlier(story: Story, moment: Moment) -> list[Moment]:
    """Return the moments of the same kind and unit that came before."""
    return [each for each in story.before(moment, moment.what) if each.unit == moment.unit]


def _ready(_: Story, moment: Moment) -> Line:
    return Line("○", "ready", PLAIN, f"process {moment.pid} has opened the ledger")


def _blocked(_: Story, moment: Moment) -> Line:
    rest = f"everybody asked in vain; claims written: {moment.claims}"
    return Line("○", "blocked", PLAIN, rest)


def _integrated(story: Story, moment: Moment) -> Line:
    names = brief(story.plans)
    ready = ", ".join(shown(names[unit]) for unit in moment.ready or {})
    done = f"{shown(names[moment.unit or ''])} {short(moment.digest or '')}"
    return Line("✓", "integrated", WON, f"{done} · ready: {ready or 'nothing'}")


def _granted(story: Story, moment: Moment) -> Line:
    before = _earlier(story, moment)
    if moment.inputs not in {each.inputs for each in before}:
        new = "on new inputs" if before else "on inputs"
        rest = f"{_place(moment)} · {new} {short(moment.inputs or '')}"
    elif moment.epoch == 1:
        rest = _place(moment)
    else:
        rest = f"{_place(moment)} · takes over, after {moment.refusals} refusals"
    return Line("●", "granted", WON, rest)


def _claim_refused(story: Story, moment: Moment) -> Line | None:
    if moment.holder == "an execution":
        return Line("✗", "refused", REFUSED, f"{moment.code}: it may be running")
    if moment.code == ErrorCode.TASK_NOT_READY:
        if moment.code in {each.code for each in _earlier(story, moment)}:
            return None  # one speaks for all
        return Line("✗", "refused", REFUSED, f"{moment.code}: {_blockers(story, moment)}")
    if moment.code != ErrorCode.TASK_CAPACITY_RESERVED:
        return _with_meaning("refused", moment)
    if story.plan(moment.unit).act != "race":
        return None  # they all keep asking; the next grant says how often in vain
    return Line("✗", "refused", REFUSED, f"{moment.code}: no slot is free")


def _blockers(story: Story, moment: Moment) -> str:
    names = brief(story.plans)
    parts = [blocker.partition(":") for blocker in moment.blockers or ()]
    return ", ".join(f"{reason}:{shown(names.get(unit, unit))}" for reason, _, unit in parts)


def _killed(_: Story, moment: Moment) -> Line:
    rest = f"{_place(moment)} · SIGKILL; claim still {moment.state}"
    return Line("✗", "killed", REFUSED, rest)


def _stalled(_: Story, moment: Moment) -> Line:
    return Line("?", "asleep", UNSURE, f"{_place(moment)} · renews nothing")


def _submitted(_: Story, moment: Moment) -> Line:
    return Line("✓", "handed in", WON, f"{_place(moment)} · {short(moment.digest or '')}")


def _submission_refused(_: Story, moment: Moment) -> Line:
    rest = f"{_place(moment)} · {moment.code}: {_why(moment)}"
    return Line("✗", "refused", REFUSED, rest)


def _why(refused: Moment) -> str:
    return _REFUSED_FOR.get(refused.code or "", "refused")


def _released(story: Story, moment: Moment) -> Line | None:
    handed_in = {each.request_id for each in story.seen("submitted", moment.unit)}
    if moment.request_id in handed_in:
        return None
    return Line("○", "left", OVER, f"{_place(moment)} · gives it up, not the execution")


def _reserved(_: Story, moment: Moment) -> Line:
    rest = f"{_place(moment)} · occupancy is now {moment.occupancy}"
    return Line("?", "reserved", UNSURE, rest)


def _repeated(_: Story, moment: Moment) -> Line:
    rest = f"{_place(moment)} · asked again: created={moment.created}"
    return Line("?", "reserved", UNSURE, rest)


def _reconciled(_: Story, moment: Moment) -> Line:
    rest = f"{_place(moment)} · by evidence; it is {moment.occupancy}"
    return Line("○", "reconciled", OVER, rest)


def _lost(_: Story, moment: Moment) -> Line:
    return Line("✗", "lost", REFUSED, f"{_place(moment)} · {moment.code}")


def _failed(_: Story, moment: Moment) -> Line:
    return _with_meaning("failed", moment)


def _with_meaning(word: str, moment: Moment) -> Line:
    return Line("✗", word, REFUSED, f"{moment.code}: {ErrorCode(moment.code or '').meaning}")


def _gone(_: Story, __: Moment) -> Line:
    return Line("✗", "gone", REFUSED, "the process ended, and nobody meant it to")


_TOLD: Final[dict[What, Callable[[Story, Moment], Line | None]]] = {
    "ready": _ready,
    "blocked": _blocked,
    "integrated": _integrated,
    "granted": _granted,
    "claim_refused": _claim_refused,
    "killed": _killed,
    "stalled": _stalled,
    "submitted": _submitted,
    "submission_refused": _submission_refused,
    "released": _released,
    "reserved": _reserved,
    "reservation_repeated": _repeated,
    "reconciled": _reconciled,
    "lost": _lost,
    "failed": _failed,
    "gone": _gone,
}
