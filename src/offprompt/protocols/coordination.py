"""What processes agree on."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Coordinator(Protocol):
    """What processes agree on: who works on something, how often something is done, what was done already.

    Key      any text; those of the three kinds do not meet.
    Time     by the clock of the caller's process; a killed process's lease or work lapses by it. One that steps back
             makes `take` wait for one more at the most, but leases last that much longer.
    Safety   any number of threads and processes; each call is one step.
    """

    def take(self, key: str, *, limit: int, per_s: float) -> float:
        """Count one, if it may be now: seconds to wait until it may; 0: it was counted.

        limit    so many at once after a pause. per_s: so many a second in the long run.
        Source   the generic cell rate algorithm, ITU-T I.371 (2004), annex A.
        """
        ...

    def once(self, key: str, digest: str, *, seconds: float) -> str | None:
        """The result of what was done under the key, or None: it is the caller's to do and to `finish`.

        digest   of what is to be done. seconds: until another caller may begin, if this one does not finish.
        Raises   ConflictError if the key stands for another digest, or for one that is being done just now.
        """
        ...

    def finish(self, key: str, digest: str, result: str | None, *, ttl_s: float) -> None:
        """Keep the result for `ttl_s` seconds; None: it was not done, and may be begun anew.

        Nothing  if the key stands for another digest, or has a result.
        """
        ...

    def lease(self, key: str, holder: str, *, seconds: float) -> int | None:
        """The number of the holder's lease, now for that many seconds; None while somebody else holds it.

        Number   greater with each new holder, the same when renewed: a resource that remembers the greatest one it has
                 seen can refuse a holder who does not know yet that its lease is over.
        """
        ...

    def release(self, key: str, holder: str) -> None:
        """End the holder's lease; of another's: nothing."""
        ...
