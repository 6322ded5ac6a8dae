"""Computes the next step of a conversation: parse the question, then replay its plans."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from prime_ext.context.digest import shortened
from prime_ext.models.offline import intents as i
from prime_ext.models.offline.bench import AMBIGUOUS, Bench
from prime_ext.models.offline.conversation import Call, Conversation, Round
from prime_ext.models.offline.parser import parse
from prime_ext.models.offline.plans import agent, compute, data, draw, errors, notebook, tour
from prime_ext.models.offline.steps import Plan, Step, Stop, speaking

LOST = (
    "The conversation changed while I was working on this, so I stopped. What was done so far "
    "stays; please ask again for what is missing."
)
NO_QUESTION = (
    "The conversation was shortened and I cannot tell what you asked last. Please ask again."
)


def next_step(conversation: Conversation) -> Step:
    """Return what to say and call next. A step without calls ends the turn, and has a text."""
    if not conversation.question and not conversation.attachments:
        return Step(NO_QUESTION)
    intents = _intents(conversation)
    plan = _all(intents, Bench(conversation))
    if len(intents) == 1 and isinstance(intents[0], i.Tour):
        return _replay(plan, *tour.rounds_to_replay(conversation))
    return _replay(plan, conversation.recalled, conversation.rounds)


def _replay(plan: Plan, recalled: Sequence[Round], rounds: Sequence[Round]) -> Step:
    """Send the recorded results to a plan and return the next step that it asks for.

    Parameters
    ----------
    recalled:
        Calls that a summary lists. Some may be missing, so they are matched by name and
        arguments.
    rounds:
        Calls in the messages, complete and in order.
    """
    known = list(recalled)
    live = iter(rounds)
    try:
        step = next(plan)
        while True:
            past = next((r for r in known if _same(r.calls, step.calls)), None)
            if past is not None:
                known.remove(past)
            else:
                past = next(live, None)
                if past is None:
                    return step
                if [call.name for call in past.calls] != [call.name for call in step.calls]:
                    return Step(LOST)
            step = plan.send(past.results)
    except StopIteration as end:
        return Step(str(end.value).strip() or "Done.")


def _same(past: Sequence[Call], asked: Sequence[Call]) -> bool:
    return [(call.name, shortened(call.arguments)) for call in asked] == [
        (call.name, call.arguments) for call in past
    ]


def _intents(conversation: Conversation) -> list[i.Intent]:
    if conversation.question:
        return parse(_completed(conversation))
    if any(attachment.kind == "error" for attachment in conversation.attachments):
        return [i.ExplainError()]
    return [i.Unknown("")]


def _completed(conversation: Conversation) -> str:
    """Return the question, or the previous one completed by the answer to "Which one?"."""
    question, (before, answer) = conversation.question, conversation.previous
    asked = re.search(rf"“(.+)”{AMBIGUOUS}.*Which one\?$", answer)
    is_name = re.fullmatch(r"[`'\"]?[\w. ]+[`'\"]?", question) is not None
    if asked is None or asked[1] not in before or not is_name:
        return question
    name = question.strip("`'\"")
    # Only one of the offered names counts as an answer; anything else is a new question.
    return before.replace(asked[1], name) if f"`{name}`" in answer else question


def _recall(intent: i.Recall, bench: Bench) -> Plan:
    """Search the record; if it has nothing, read "what was the mean of a" as a new question."""
    found = yield from notebook.recall(intent, bench)
    if found is not None:
        return found
    again = parse(
        re.sub(r"^(\W*what\s+)(?:was|were)\b", r"\1is", bench.conversation.question, flags=re.I)
    )
    if isinstance(again[0], (i.Aggregate, i.Correlation, i.ValueCounts, i.Top, i.Inspect)):
        return (yield from _PLANS[type(again[0])](again[0], bench))
    return f"The session's record has nothing about “{intent.query}”."


def _all(intents: list[i.Intent], bench: Bench) -> Plan:
    """Run the plans in order; the closing text of one precedes the first text of the next."""
    said: list[str] = []
    for number, intent in enumerate(intents):
        plan = _PLANS[type(intent)](intent, bench)
        try:
            said.append((yield from speaking(plan, said)))
        except Stop as stop:
            said.append(stop.text)
            if number + 1 < len(intents):
                said.append("I left out the rest of what you asked.")
            break
    if bench.unsaved is not None:
        said.append(f"But the notebook is not saved: {bench.unsaved}")
    return "\n\n".join(text for text in said if text)


_PLANS: dict[type, Callable[[Any, Bench], Plan]] = {
    i.Help: agent.help_,
    i.Greeting: agent.greeting,
    i.Thanks: agent.thanks,
    i.About: agent.about,
    i.ConnectModel: agent.connect,
    i.Compact: agent.compact,
    i.Unknown: agent.unknown,
    i.Tour: tour.tour,
    i.RunCode: notebook.run_code,
    i.ReadNotebook: notebook.read_notebook,
    i.InsertCell: notebook.insert_cell,
    i.EditCell: notebook.edit_cell,
    i.ReplaceInCell: notebook.replace_in_cell,
    i.DeleteCell: notebook.delete_cell,
    i.MoveCell: notebook.move_cell,
    i.RunCell: notebook.run_cell,
    i.ListFiles: notebook.list_files,
    i.ReadFile: notebook.read_file,
    i.SearchFiles: notebook.search_files,
    i.Recall: _recall,
    i.ExplainError: errors.explain,
    i.Load: data.load,
    i.ListVariables: data.list_variables,
    i.Inspect: data.inspect,
    i.Describe: data.describe,
    i.Analyse: data.analyse,
    i.Plot: draw.plot,
    i.Rows: compute.rows,
    i.Aggregate: compute.aggregate,
    i.ValueCounts: compute.value_counts,
    i.Unique: compute.unique,
    i.Filter: compute.filter_,
    i.Sort: compute.sort,
    i.Top: compute.top,
    i.Missing: compute.missing,
    i.FillMissing: compute.fill_missing,
    i.Correlation: compute.correlation,
    i.Crosstab: compute.crosstab,
    i.Duplicates: compute.duplicates,
    i.AddColumn: compute.add_column,
    i.Export: compute.export,
}
