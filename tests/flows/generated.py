"""Hypothesis strategies for valid flows of every kind, as the plain values of a document."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from boards.flows.definition import KINDS

# Any text that a column can hold; a brace would begin a template.
WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0{"), min_size=1, max_size=40)
NAMES = WORDS.map(lambda told: told.strip()).filter(bool)
KEYS = st.from_regex(r"[a-z][a-z0-9_-]{0,9}", fullmatch=True)
LONG = st.lists(WORDS, min_size=1, max_size=4).map("\n".join).filter(str.strip)
NUMBERS = st.integers(1, 10**9)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=6
)
SCHEMAS = st.dictionaries(
    WORDS, st.fixed_dictionaries({"title": WORDS, "default": VALUES}), min_size=1, max_size=4
).map(lambda properties: {"type": "object", "properties": properties})
MAPPINGS = st.dictionaries(WORDS, VALUES, min_size=1, max_size=4)
TASK = {"prompt": LONG, "assignee": NAMES, "checker": NAMES, "max_attempts": NUMBERS, "timeout_ms": NUMBERS}


@st.composite
def some(draw: st.DrawFn, fields: dict[str, st.SearchStrategy[Any]], *needed: str) -> dict[str, Any]:
    """Some of these fields, in any order, and all that are needed."""
    names = [name for name in draw(st.permutations(list(fields))) if name in needed or draw(st.booleans())]
    return {name: draw(fields[name]) for name in names}


@st.composite
def inner_steps(draw: st.DrawFn) -> list[dict[str, Any]]:
    kinds = {
        "agent": some(TASK, "prompt"),
        "task": some(TASK, "prompt"),
        "approval": some({"prompt": LONG, "draft": LONG, "timeout_ms": NUMBERS}),
        "input": some({"prompt": LONG, "schema": SCHEMAS, "assignee": NAMES}, "schema"),
    }
    keys = draw(st.lists(KEYS, min_size=1, max_size=3, unique=True))
    made = []
    for key in keys:
        kind = draw(st.sampled_from(sorted(kinds)))
        made.append({"key": key, "kind": kind} | draw(some({"name": NAMES})) | draw(kinds[kind]))
    return made


@st.composite
def stage_tasks(draw: st.DrawFn, *, optional: bool) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    fields = {"goal": LONG, "title": NAMES, **{name: TASK[name] for name in TASK if name != "prompt"}}
    for key in draw(st.lists(KEYS, min_size=1, max_size=3, unique=True)):
        earlier = [task["key"] for task in made]
        deps = draw(st.lists(st.sampled_from(earlier), unique=True)) if earlier else []
        more = {"required": draw(st.booleans())} if optional else {}
        made.append({"key": key, **draw(some(fields, "goal")), "deps": deps, **more})
    return made


@st.composite
def side_effects(draw: st.DrawFn) -> list[Any]:
    kinds = st.one_of(
        st.just("reset_context"),
        MAPPINGS.map(lambda data: {"type": "set_data", "data": data}),
        some({"message": LONG, "to": NAMES}, "message").map(lambda told: {"type": "notify", **told}),
        some({"goal": LONG, "title": NAMES, "assignee": NAMES}, "goal").map(
            lambda told: {"type": "create_task", **told}
        ),
    )
    return draw(st.lists(kinds, max_size=3))


@st.composite
def transitions(draw: st.DrawFn, later: list[str]) -> list[Any]:
    """Only to later steps: so nothing goes round by itself."""
    more = some(
        {
            "when": st.sampled_from(["data.x", "output.ok and data['a b']", "not output"]),
            "requires_approval": st.just(True),
            "quorum": st.sampled_from(
                [{"role": "members", "threshold": "n_approve:2"}, {"threshold": "all_approve", "role": "operators"}]
            ),
        }
    )
    to = st.sampled_from(later).map(lambda key: {"type": "move_to_step", "step": key})
    move = st.one_of(to, st.just({"type": "move_to_next"}))
    return [draw(move) | draw(more) for _ in range(draw(st.integers(0, 2)))]


@st.composite
def steps(draw: st.DrawFn, key: str, kind: str, later: list[str], earlier: list[str]) -> dict[str, Any]:
    enter = draw(side_effects())
    of_kind: dict[str, st.SearchStrategy[dict[str, Any]]] = {
        "agent": some(TASK | {"auto_advance_requires_signal": st.booleans()}, "prompt"),
        "task": some(TASK, "prompt"),
        "approval": some({"prompt": LONG, "draft": LONG, "timeout_ms": NUMBERS, "assignee": NAMES}),
        "input": some({"prompt": LONG, "schema": SCHEMAS, "timeout_ms": NUMBERS}, "schema"),
        "wait": st.one_of(
            NUMBERS.map(lambda ms: {"duration_ms": ms}),
            LONG.map(lambda until: {"until": until}),
            LONG.map(lambda key: {"event": key}),
        ),
        "choice": st.sampled_from(later).map(
            lambda to: {"choices": [{"when": "data.x", "step": later[-1]}, {"step": to}]}
        ),
        "parallel": inner_steps().map(lambda inner: {"branches": inner, "join": len(inner)}),
        "stage": stage_tasks(optional=True).map(lambda tasks: {"tasks": tasks}),
        "loop": stage_tasks(optional=False).map(
            lambda tasks: {"tasks": tasks, "judge": "a.judge", "max_iterations": 3}
        ),
        "call": MAPPINGS.map(lambda inputs: {"flow": "elsewhere", "inputs": inputs}),
        "notify": some({"prompt": LONG, "to": NAMES}, "prompt"),
        "column": some({"prompt": LONG, "assignee": NAMES}),
    }
    told = {"key": key, "name": draw(NAMES), "kind": kind} | draw(of_kind[kind])
    told |= draw(
        some(
            {
                "color": st.sampled_from(["green", "#ff0000"]),
                "cancel_triggers_turn_complete": st.booleans(),
                "allow_manual_move": st.booleans(),
                "show_in_command_panel": st.booleans(),
                "wip_limit": st.integers(0, 9),
                "auto_archive_after_hours": st.integers(0, 99),
                **({"pull_from": st.sampled_from(earlier)} if earlier else {}),
            }
        )
    )
    if kind != "column" and draw(st.booleans()):
        then = draw(st.sampled_from(["fail", "continue", f"goto {later[-1]}"]))
        told["on_failure"] = draw(st.sampled_from([{"then": then}, {"steps": draw(inner_steps()), "then": then}]))
    events = {
        "on_enter": enter,
        "on_turn_start": [{"type": "move_to_next"}] if draw(st.booleans()) else [],
        "on_turn_complete": [*draw(side_effects()), *draw(transitions(later))],
        "on_exit": draw(side_effects()),
    }
    return told | {"events": events}


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """One flow: any kinds, any texts, the last step a column."""
    keys = draw(st.lists(KEYS, min_size=2, max_size=5, unique=True))
    made = [
        draw(steps(key, draw(st.sampled_from(KINDS)), keys[place + 1 :], keys[:place]))
        for place, key in enumerate(keys[:-1])
    ]
    made.append({"key": keys[-1], "name": draw(NAMES), "terminal": draw(st.booleans())})
    made[draw(st.integers(0, len(made) - 1))]["is_start_step"] = True
    head = draw(some({"description": LONG, "prompt": LONG, "agent": NAMES, "inputs": SCHEMAS}))
    style = draw(st.sampled_from(["pipeline", "board"]))
    return {"key": draw(KEYS), "name": draw(NAMES), "style": style, "steps": made} | head
