"""Facts that a language model reads in turns: what it is asked, and what of its answer is carried by the turns."""

from offprompt.recall.extract.checking import check
from offprompt.recall.extract.prompting import Prompt, prompt_for
from offprompt.recall.extract.reading import BadAnswerError, read_decisions
from offprompt.recall.extract.records import Accepted, Action, Checked, Decision, Known, Line, Strictness
from offprompt.recall.extract.schema import schema_of

__all__ = [
    "Accepted",
    "Action",
    "BadAnswerError",
    "Checked",
    "Decision",
    "Known",
    "Line",
    "Prompt",
    "Strictness",
    "check",
    "prompt_for",
    "read_decisions",
    "schema_of",
]
