"""The demo board: the last days before a release of a made-up program, with a task in every status.

Tasks are filed, claimed and settled by the engine's verbs, so each row could really exist. What has ended here was
"worked" by this module under real claims; the rest is left to the drain, whose two agents take seconds for each task.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from boards import actors, tasks
from boards.demo.texts import ANNOUNCEMENT, CHAPTERS, LANGUAGES, NOTES, UPGRADE_GUIDE, sections
from boards.models import Board, Member, Role, RosterEntry, User
from boards.tasks.types import Claimed, Filing, HoldFiling, Wanted

READER, WRITER, COLLEAGUE = "reader", "writer", "anna"
LEASE_MS = 30_000  # so that the board soon notices a drain that was killed
MISSING_INSTALLER = (
    "The download page has no macOS installer: tidewater-2.4.0.dmg answers 404. Upload the build, then retry this task."
)


def make(operator: Member) -> Board:
    """The board with its roster and tasks, in the running transaction."""
    board = Board.objects.create(
        space=operator.space,
        slug="release-desk",
        name="Release desk",
        default_worker=WRITER,  # a line that a newcomer types without an assignee is worked, too
        lease_ms=LEASE_MS,
    )
    _roster(board, operator)
    chain = actors.person(operator)
    tasks.file_tasks(chain, board, _worked_before())
    _work(board)
    # A lane shows what was filed last first, and agents take what was filed first.
    for filings in (_first(), _manual(), _translations(), _website(operator), _for_people(operator)):
        tasks.file_tasks(chain, board, filings)
    server = tasks.get_task(chain, board, "beta-server")
    tasks.cancel(chain, server, "The beta ended; its server was switched off in May.")
    return board


def _roster(board: Board, operator: Member) -> None:
    anna = User(username=COLLEAGUE, first_name="Anna", last_name="Lind")
    anna.set_unusable_password()
    anna.save()
    Member.objects.create(space=board.space, user=anna, role=Role.MEMBER)
    agents = [(READER, "demo.reader", 2), (WRITER, "demo.writer", 1)]
    people = [(operator.user.username, operator.user), (COLLEAGUE, anna)]
    RosterEntry.objects.bulk_create(
        [
            *(
                RosterEntry(
                    board=board,
                    name=name,
                    kind=RosterEntry.Kind.PYTHON,
                    config={"worker": worker},
                    max_running=most,
                    position=position,
                )
                for position, (name, worker, most) in enumerate(agents)
            ),
            *(
                RosterEntry(board=board, name=name, kind=RosterEntry.Kind.PERSON, user=user, position=position)
                for position, (name, user) in enumerate(people, len(agents))
            ),
        ]
    )


def _worked_before() -> list[Filing]:
    return [
        Filing(
            id="collect-changes",
            goal="Collect every change since 2.3 that a user would notice, one line each.",
            title="Collect the changes since 2.3",
            assignee=READER,
            labels=["notes"],
        ),
        Filing(
            id="check-licences",
            goal="Check that every new dependency has a licence we may ship.",
            title="Check licences of new dependencies",
            assignee=READER,
            labels=["legal"],
        ),
        Filing(
            id="draft-notes",
            goal="Write the release notes for 2.4 from the collected changes: what is new, what is fixed.",
            title="Draft the release notes for 2.4",
            assignee=WRITER,
            deps=["collect-changes"],
            labels=["notes"],
            input={"text": NOTES},
        ),
        Filing(
            id="upgrade-guide",
            goal="Write the page that tells people on 2.3 how to upgrade, and what may surprise them.",
            title="Write the upgrade guide",
            assignee=WRITER,
            checker="person",
            labels=["docs"],
            input={"text": UPGRADE_GUIDE},
        ),
        Filing(
            id="check-installers",
            goal="Download each installer of 2.4 from the public page and compare its checksum with the build's.",
            title="Check the installers on the download page",
            assignee=READER,
            labels=["builds"],
            priority=2,
            input={"pages": ["Windows", "macOS", "Linux"], "pace_s": 4},
        ),
        Filing(
            id="macos-note",
            goal="Add the macOS installer's size and checksum to the download page.",
            title="Put the macOS checksum on the page",
            assignee=WRITER,
            deps=["check-installers"],
            labels=["builds"],
        ),
    ]


def _work(board: Board) -> None:
    """What the agents did before the page was first opened, under real claims, as many at once as the roster allows."""
    done: dict[str, Any] = {
        "collect-changes": {"changes": 42, "noticed by users": 17},
        "check-licences": {"dependencies": 6, "licences": ["MIT", "BSD-3-Clause", "Apache-2.0"], "problems": 0},
        "draft-notes": {"markdown": NOTES},
        "upgrade-guide": {"markdown": UPGRADE_GUIDE},
    }
    wanted = [Wanted(board.pk, {READER: 2, WRITER: 1})]
    while batch := tasks.claim(wanted, limit=3, claimed_by={"host": "demo"}):
        for claimed in batch:
            _settle(board, claimed, done.get(claimed.task.public_id))


def _settle(board: Board, claimed: Claimed, output: Any) -> None:
    agent = actors.agent(claimed.task.assignee, board.space_id)
    key, attempt = claimed.ticket.task_key, claimed.ticket.attempt
    if output is None:
        tasks.add_transcript(key, attempt, "error", "GET /download/tidewater-2.4.0.dmg: 404", who=claimed.task.assignee)
        tasks.fail(agent, claimed.task, MISSING_INSTALLER, claim=claimed.ticket, for_good=True)
    else:
        tasks.add_transcript(key, attempt, "message", "Read the input; handing in.", who=claimed.task.assignee)
        tasks.complete(agent, claimed.task, output, claim=claimed.ticket)


def _first() -> list[Filing]:
    """What the agents take up first."""
    return [
        Filing(
            id="write-announcement",
            goal="Write the announcement of 2.4 for the website under the headline that a person chose.",
            title="Write the announcement",
            assignee=WRITER,
            labels=["website"],
            priority=5,
            input={
                "pace_s": 3,
                "sections": sections(ANNOUNCEMENT),
                "ask": {
                    "title": "Which headline?",
                    "prompt": "The announcement can lead with the new offline charts or with the speed. Which one?",
                    "options": [
                        {
                            "value": "offline",
                            "label": "Tidewater 2.4 works offline",
                            "description": "What most users have asked for since 2.0.",
                        },
                        {
                            "value": "fast",
                            "label": "Tidewater 2.4 opens in a second",
                            "description": "Everybody notices it, and it is easy to show.",
                        },
                    ],
                },
            },
        ),
        Filing(
            id="screenshots",
            goal="Look through the screenshots of the website for ones that still show 2.3.",
            title="Find old screenshots",
            assignee=READER,
            labels=["website"],
            input={
                "pages": ["start page", "features", "charts", "help", "press"],
                "pace_s": 3,
                "remarks": {"charts": "the legend is the one of 2.3", "press": "the logo is old"},
            },
        ),
    ]


def _website(operator: Member) -> list[Filing]:
    """A chain in which each task waits for the one before, up to a person."""
    return [
        Filing(
            id="captions",
            goal="Write new captions for the screenshots that have to be taken again.",
            title="Write new captions",
            assignee=WRITER,
            deps=["screenshots"],
            labels=["website"],
            priority=4,
            input={"pace_s": 4, "sections": sections("Charts: the tide at a glance.\nPress: our new mark.")},
        ),
        Filing(
            id="proofread-site",
            goal="Read the website once more from start to end: spelling, links, version numbers.",
            title="Proofread the website",
            assignee=READER,
            deps=["captions", "write-announcement"],
            labels=["website"],
            priority=4,
            input={"pages": ["start page", "announcement", "features", "download"], "pace_s": 3},
        ),
        Filing(
            id="publish-site",
            goal="Publish the website of 2.4 once it is proofread and the announcement stands.",
            title="Publish the website",
            assignee=operator.user.username,
            deps=["proofread-site"],
            labels=["website"],
        ),
    ]


def _for_people(operator: Member) -> list[Filing]:
    """What waits on people, and what is kept back."""
    now = timezone.now()
    return [
        Filing(
            id="sign-windows",
            goal="Sign the Windows installer with the token in the office safe and upload it.",
            title="Sign the Windows installer",
            assignee=operator.user.username,
            labels=["builds"],
            due_at=now + timedelta(hours=20),
        ),
        Filing(
            id="answer-packager",
            goal="Answer the packager of the Linux distributions: does 2.4 still build without the map library?",
            title="Answer the Linux packager",
            assignee=COLLEAGUE,
            labels=["builds"],
            due_at=now - timedelta(days=1),
        ),
        Filing(
            id="remove-beta-builds",
            goal="Delete the fourteen beta builds of 2.4 from the download server.",
            title="Delete the beta builds",
            assignee=READER,
            labels=["builds"],
            input={"pages": ["list of builds", "download server"], "pace_s": 4},
            holds=[
                HoldFiling(
                    kind="confirm",
                    title="Delete 14 beta builds?",
                    prompt="They cannot be brought back. 212 people still run one of them.",
                )
            ],
        ),
        Filing(
            id="newsletter",
            goal="Send the newsletter about 2.4 to the 3,100 readers of the list.",
            title="Send the newsletter",
            assignee=WRITER,
            labels=["website"],
            held=True,
            input={"sections": sections(ANNOUNCEMENT)},
        ),
        Filing(
            id="beta-server",
            goal="Move the beta server to the new host before the release.",
            title="Move the beta server",
            assignee=COLLEAGUE,
            labels=["builds"],
        ),
    ]


def _manual() -> list[Filing]:
    """One task a chapter, each after the one before it in its half, so that the board moves for about five minutes."""
    return [
        Filing(
            id=f"manual-{number}",
            goal=f"Read chapter {number} of the manual, “{title}”, against the program as it is now.",
            title=f"Manual {number}: {title}",
            assignee=READER,
            deps=[f"manual-{number - 2}"] if number > 2 else (),
            labels=["docs"],
            input={"pages": [f"{number}.{part}" for part in range(1, 6)], "pace_s": 8, "remarks": remarks},
        )
        for number, (title, remarks) in enumerate(CHAPTERS, 1)
    ]


def _translations() -> list[Filing]:
    return [
        Filing(
            id=f"notes-{code}",
            goal=f"Translate the release notes into {language} and keep the terms of the glossary.",
            title=f"Release notes in {language}",
            assignee=WRITER,
            deps=["draft-notes"],
            labels=["notes"],
            max_attempts=2,
            input={"pace_s": 15, "sections": sections(text)},
        )
        for code, (language, text) in LANGUAGES.items()
    ]
