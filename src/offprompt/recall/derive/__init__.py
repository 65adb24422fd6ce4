"""Facts and profile, derived from what users say by rules, in English and Chinese, without a language model."""

from offprompt.recall.derive.deriving import derive
from offprompt.recall.derive.records import SLOTS, Derived, Quote, Turn
from offprompt.recall.derive.rules import rule_names

__all__ = ["SLOTS", "Derived", "Quote", "Turn", "derive", "rule_names"]
