"""Attempts at a command in which several things are wrong at once, each named by one word.

An attempt is a command and a set of words. The words are brought about one by one and do not
know each other; where two cannot both be true, the one that a check meets first is.
"""

from dataclasses import dataclass
from typing import Any

from builders import (
    APPROVER,
    DISPATCHER,
    OTHER_SCOPE,
    READER,
    RIVAL,
    SCOPE,
    START,
    WORKER,
    Clock,
    binding,
    digest,
    log,
    task,
)
from msgspec.structs import replace

from idkmesh import (
    ActorContext,
    AuthorizationPolicy,
    ClaimError,
    ClaimLedger,
    ScopedResourceRef,
    TaskClaimPolicy,
)

LEASE = 300
ACTIONS = {
    "configure_task": "dispatch",
    "claim": "claim",
    "acknowledge": "claim",
    "renew": "claim",
    "progress": "claim",
    "release": "release",
    "reserve_dispatch": "dispatch",
    "reconcile_execution": "dispatch",
    "record_submission": "execute",
    "snapshot": "read",
    "peek": "read",
    "policy": "read",
    "lookup": "read",
    "survey": "read",
}
CALLERS = {"dispatch": DISPATCHER, "claim": WORKER, "release": WORKER, "execute": WORKER}
APPROVING = ("configure_task", "reserve_dispatch", "reconcile_execution", "record_submission")
APPROVED: dict[str, Any] = {"approver": APPROVER, "approval_reference": "change-1"}


@dataclass(frozen=True)
class Attempt:
    """One call of a command, and what is wrong with it."""

    command: str
    faults: frozenset[str]

    def outcome(self, ledger: ClaimLedger, clock: Clock) -> tuple[str, str]:
        """Prepare the file, make the call, and return the events it left and its answer."""
        self._prepare(ledger, clock)
        before = len(log(ledger))
        tried = ClaimLedger(ledger._store, self._rules(), clock=clock)
        try:
            answer = self._answer(self._call(tried))
        except ClaimError as error:
            answer = str(error.code)
        words = [row.type.split(".")[1] for row in log(ledger)[before:]]
        return " ".join(words) or "-", answer

    def _any(self, *words: str) -> bool:
        return not self.faults.isdisjoint(words)

    # The file before the attempt, made by people who may.

    def _prepare(self, ledger: ClaimLedger, clock: Clock) -> None:
        if self.command != "configure_task" or self._any("conflict", "due"):
            ledger.configure_task(task(), DISPATCHER, self._terms(), **APPROVED)
            if self.command != "claim" or self._any("conflict", "replay", "spent", "taken", "due"):
                self._prepare_claim(ledger)
        clock.now = START + (LEASE if self._any("due") else 1)
        if self._any("rollback"):
            clock.now = START - 1
        if self._any("clock"):
            clock.now = "noon"

    def _prepare_claim(self, ledger: ClaimLedger) -> None:
        """Grant r-1, and take it as far as the words ask."""
        holder = RIVAL if self._any("other-owner") else WORKER
        request: dict[str, Any] = {"request_id": "r-1", "epoch": 1}
        reconciling = self.command == "reconcile_execution"
        reserved = self._any("reserved", "taken") or (reconciling and not self._any("unreserved"))
        consents = self.command != "acknowledge" and not self._any("unacknowledged")
        ledger.claim(task(), holder, request_id="r-1", binding=binding("a"))
        if consents or reserved:
            ledger.acknowledge(task(), holder, **request)
        if reserved:
            ledger.reserve_dispatch(task(), DISPATCHER, holder, **request, **APPROVED)
        if reserved and self._any("ended-otherwise"):
            evidence: Any = {"status": "terminal", "evidence_reference": "run-1"}
            ledger.reconcile_execution(task(), DISPATCHER, **request, **evidence, **APPROVED)
        if self._any("bound"):
            artifact: Any = {"artifact_digest": digest("b")}
            ledger.record_submission(task(), holder, **request, **artifact, **APPROVED)
        if self._any("released") and not self._any("due"):
            ledger.release(task(), holder, **request)

    def _terms(self, **changes: Any) -> TaskClaimPolicy:
        settled: dict[str, Any] = {
            "max_attempts": 1 if self._any("spent") else 2,
            "lease_seconds": LEASE,
            "risk": "high",
            "data_classification": "confidential",
        }
        return TaskClaimPolicy(**{**settled, **changes})

    # Who calls, and under which rules.

    def _rules(self) -> AuthorizationPolicy:
        """Take the baseline, and break the rules that the attempt needs."""
        marks = {ACTIONS[self.command]: ""}
        if self.command == "reserve_dispatch":
            marks["execute"] = "owner-"
        rules = []
        for rule in AuthorizationPolicy.enterprise_baseline().rules:
            mark = marks.get(rule.action)
            changes: dict[str, Any] = {}
            if mark is not None and self._any(f"{mark}no-rule"):
                continue
            if mark is not None and self._any(f"{mark}type"):
                changes["allowed_actor_types"] = frozenset({"node"})
            if mark is not None and self._any(f"{mark}role"):
                changes["allowed_roles"] = frozenset({"integrator"})
            if mark is not None and self._any(f"{mark}limit"):
                changes["max_data_classification"] = "internal"
            rules.append(replace(rule, **changes))
        return AuthorizationPolicy("broken", "1", tuple(rules))

    def _spoilt(self, person: ActorContext, mark: str) -> ActorContext:
        """Spoil an identity with the words that carry this mark."""
        changes: dict[str, Any] = {}
        if self._any(f"{mark}foreign"):
            changes["scopes"] = frozenset({OTHER_SCOPE})
        if self._any(f"{mark}unproven"):
            changes["authenticated"] = False
        if self._any(f"{mark}revoked"):
            changes["revoked"] = True
        if self._any(f"{mark}ended"):
            changes["expires_at_epoch"] = START
        if self._any(f"{mark}clearance"):
            changes["data_clearance"] = "internal"
        return replace(person, **changes)

    def _approval(self) -> dict[str, Any]:
        approver = self._spoilt(APPROVER, "approver-")
        changes: dict[str, Any] = {}
        if self._any("self-owner"):
            changes["principal_id"] = WORKER.principal_id
        if self._any("self"):
            changes["principal_id"] = CALLERS[ACTIONS[self.command]].principal_id
        if self._any("approver-type"):
            changes["actor_type"] = "service"
        if self._any("owner-approver-role"):
            changes["roles"] = frozenset({"integrator"})
        if self._any("approver-role"):
            changes["roles"] = frozenset({"worker"})
        if self._any("reference"):
            return {"approver": replace(approver, **changes)}
        if self._any("unapproved"):
            return {}
        return {"approver": replace(approver, **changes), "approval_reference": "change-2"}

    # The call itself.

    def _call(self, ledger: ClaimLedger) -> Any:
        call = getattr(ledger, self.command)
        caller = self._spoilt(CALLERS.get(ACTIONS[self.command], READER), "")
        if self.command == "survey":
            return call(SCOPE, caller, state="gone" if self._any("filter") else None)
        return call(self._task(), caller, **self._arguments())

    def _task(self) -> ScopedResourceRef:
        if self._any("resource"):
            return ScopedResourceRef(SCOPE, "project", "T-1")
        return task("T-2" if self._any("unconfigured") else "T-1")

    def _arguments(self) -> dict[str, Any]:
        request_id = "" if self._any("request-id") else "r-9" if self._any("unknown") else "r-1"
        arguments: dict[str, Any] = {}
        if ACTIONS[self.command] != "read" and self.command not in ("configure_task", "claim"):
            arguments = {"request_id": request_id, "epoch": 2 if self._any("epoch") else 1}
        if self.command in APPROVING:
            arguments |= self._approval()
        if self.command == "configure_task":
            changes = {"ack_seconds": 7} if self._any("conflict") else {}
            arguments["policy"] = self._terms(**changes)
        elif self.command == "claim":
            fresh = not self._any("conflict", "replay", "request-id")
            arguments["request_id"] = "r-2" if fresh else request_id
            arguments["binding"] = binding("b" if self._any("conflict") else "a")
        elif self.command == "lookup":
            arguments["request_id"] = request_id
        elif self.command == "reserve_dispatch":
            arguments["owner"] = self._spoilt(WORKER, "owner-")
        elif self.command == "reconcile_execution":
            arguments["status"] = "stopped" if self._any("status") else "terminal"
            arguments["evidence_reference"] = " " if self._any("evidence") else "run-2"
        elif self.command == "record_submission":
            arguments["artifact_digest"] = "sha256:c" if self._any("digest") else digest("c")
        return arguments

    def _answer(self, answer: Any) -> str:
        if self.command == "configure_task":
            return "created" if answer else "retained"
        if self.command in ("claim", "reserve_dispatch"):
            return "created" if answer.created else "retained"
        return "answered"
