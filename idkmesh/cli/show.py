"""How the demo is shown: a story for a terminal, plain text for a pipe, or one JSON document."""

import json
from pathlib import Path
from typing import Final, TextIO

from rich import box
from rich.console import Console, JustifyMethod
from rich.rule import Rule
from rich.status import Status
from rich.table import Table
from rich.text import Text

from idkmesh.cli import words
from idkmesh.cli.plans import WORKERS, Plan
from idkmesh.cli.story import Moment, Story
from idkmesh.naming import shown

_WIDTH_OF_A_PIPE: Final = 100
_OBJECTIVE_SHOWN: Final = 60
_LEAST_ROOM: Final = 20
_PLACE: Final = r"slot \d+ epoch \d+"
_CODE: Final = r"\w+_\w+"
_JUSTIFIED: Final[dict[str, JustifyMethod]] = {"Slot": "right", "Epoch": "right"}

# For a terminal or a file whose encoding is not of Unicode.
_ASCII: Final = str.maketrans(
    {"●": "*", "✓": "+", "✗": "x", "○": "o", "·": "-", "…": "...", "→": "->"}
)


def path(value: Path) -> str:
    """Return a path as it may be shown: all of it, with nothing in it that a terminal obeys."""
    return "/".join(map(shown, str(value).split("/")))


class Document:
    """Prints the whole story as one JSON document at its end, and nothing else."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def begins(self, story: Story) -> None:
        """Say nothing yet."""

    def sees(self, story: Story, moment: Moment) -> None:
        """Say nothing yet."""

    def waits(self, what: str, refusals: int) -> None:
        """Say nothing yet."""

    def close(self) -> None:
        """Have nothing to take back."""

    def ends(self, story: Story) -> None:
        """Print it all, in ASCII, so that no name can steer a terminal."""
        text = json.dumps(story.to_dict(), indent=2, ensure_ascii=True, allow_nan=False)
        self._out.write(text.replace("\x7f", "\\u007f") + "\n")


class Teller:
    """Tells the story line by line while it happens, and sums it up."""

    def __init__(self, out: TextIO) -> None:
        terminal = out.isatty()
        # Said outright: what the environment forces on a pipe would be control codes in a file.
        self._console = Console(
            file=out,
            force_terminal=terminal,
            highlight=False,
            width=None if terminal else _WIDTH_OF_A_PIPE,
        )
        self._unicode = self._console.encoding.startswith("utf")
        self._status: Status | None = None

    def begins(self, story: Story) -> None:
        """Say what is going to be played, and where."""
        kept = "a ledger file of its own"
        if story.ledger is not None:
            kept = f"the ledger {path(Path(story.ledger))}"
        title = self._text("IDKMesh demo", "bold")
        title.append_text(
            self._text(
                f"  {len(story.plans)} WorkUnits · {len(WORKERS)} worker processes · {kept}",
                "not bold",
            )
        )
        self._console.print(title)
        if self._console.is_terminal:
            self._status = self._console.status("", spinner="dots" if self._unicode else "line")
            self._status.start()

    def sees(self, story: Story, moment: Moment) -> None:
        """Tell one moment."""
        if moment.what == "offered":
            self._heading(story.plan(moment.unit))
            return
        told = words.line(story, moment)
        if told is None:
            return
        sign = Text.assemble(
            (f"{moment.elapsed_ms / 1000:4.1f}s ", words.OVER),
            (f"{shown(moment.who):11} ", "bold"),
            self._text(f"{told.sign} {told.word:10} ", told.colour),
        )
        rest = self._text(told.rest)
        rest.highlight_regex(_PLACE, "bold")
        rest.highlight_regex(_CODE, told.colour)
        self._row(sign, rest)

    def waits(self, what: str, refusals: int) -> None:
        """Show what the story waits for, where that can be taken back."""
        if self._status is not None:
            asked = f" · {refusals} refused meanwhile" if refusals else ""
            self._status.update(self._text(f"waiting for {what}{asked}", words.OVER))

    def ends(self, story: Story) -> None:
        """Sum it up: every claim, what the signs meant, and every promise."""
        self.close()
        self._console.print()
        self._console.print(self._claims(story))
        self._console.print(self._legend())
        self._console.print()
        for promise in story.promises:
            sign, colour = ("✓", words.WON) if promise.kept else ("✗", words.REFUSED)
            self._row(self._text(f"{sign} ", colour), self._text(promise.text))
        if story.rebuilt is not None:
            of = story.rebuilt
            figures = (
                f"{of.events} events · {of.tasks} tasks · {of.claims} claims"
                f" · {of.observations} observations"
            )
            self._row(Text("  "), self._text(figures, words.OVER))
        self._console.print()
        self._console.print(self._verdict(story))

    def close(self) -> None:
        """Take back what shows the waiting."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _heading(self, plan: Plan) -> None:
        title = self._text(f"{plan.number}  {shown(plan.unit)}", "bold")
        after = f", after {', '.join(map(shown, plan.requires))}" if plan.requires else ""
        title.append_text(self._text(f"  {plan.content['kind']}{after}", words.OVER))
        self._console.print()
        self._console.print(Rule(title, align="left", style=words.OVER))
        objective = " ".join(plan.content["objective"].split())
        if len(objective) > _OBJECTIVE_SHOWN:
            objective = f"{objective[:_OBJECTIVE_SHOWN].rsplit(' ', 1)[0]} …"
        self._console.print(self._text(f"  {shown(objective)}", words.OVER))
        self._console.print(self._text(f"  {words.HEADINGS[plan.act]}", "italic"))

    def _claims(self, story: Story) -> Table:
        table = Table(
            box=box.SIMPLE_HEAD,
            border_style=words.OVER,
            header_style="bold",
            collapse_padding=True,
            pad_edge=False,
        )
        names = words.brief(story.plans)
        for heading in ("WorkUnit", "Slot", "Epoch", "Owner", "State", "Execution", "Outcome"):
            table.add_column(heading, overflow="fold", justify=_JUSTIFIED.get(heading, "left"))
        for plan in story.plans:
            claims = [claim for claim in story.claims if claim.task == plan.task]
            for claim in claims:
                told = words.fate(story, claim)
                table.add_row(
                    self._text(shown(names[plan.unit]) if claim is claims[0] else ""),
                    str(claim.slot),
                    str(claim.epoch),
                    self._text(shown(claim.owner.principal_id), "bold"),
                    claim.state,
                    claim.occupancy,
                    self._text(f"{told.sign} {told.words}", told.colour),
                    end_section=claim is claims[-1],
                )
        return table

    def _legend(self) -> Text:
        parts = [self._text(f"{sign} {means}", colour) for sign, means, colour in words.LEGEND]
        return Text("   ").join([Text(""), *parts])

    def _verdict(self, story: Story) -> Text:
        if story.broken is not None:
            return self._text(f"The story stopped short: {story.broken}.", words.REFUSED)
        if story.missing:
            return self._text("Not all of what was promised was seen.", words.REFUSED)
        kept = "" if story.ledger is None else f" The ledger is in {path(Path(story.ledger))}."
        return self._text(f"Everything that was promised was seen.{kept}", words.WON)

    def _row(self, sign: Text, rest: Text) -> None:
        """Print a line that, where it is too long, goes on below its own beginning."""
        margin = "  "
        room = self._console.width - len(margin) - sign.cell_len
        hanging = "\n" + " " * (len(margin) + sign.cell_len)
        wrapped = rest.wrap(self._console, max(room, _LEAST_ROOM))
        self._console.print(Text.assemble(margin, sign, Text(hanging).join(wrapped)))

    def _text(self, text: str, style: str = "") -> Text:
        return Text(text if self._unicode else text.translate(_ASCII), style)
