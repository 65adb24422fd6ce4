"""What tests of Offprompt, and of engines written for it, build on: conformance suites and a moved clock.

The suites need pytest and hypothesis, which the package itself does not: import them from `offprompt.testing.suites`.
"""

from offprompt.testing.clock import MovedClock

__all__ = ["MovedClock"]
