"""Jobs in motion: patterns, conditions, and the event engine.

Where times are whole numbers, many events coincide. Moments are equal if they are equal as
floating-point numbers; a burst with at most 1e-12 of its volume left when its rate changes ends
at that moment. The order of events of one moment is fixed:

- Turns: bursts that end come first, in order of jobs; then jobs that have computed or waited until
  now, in order of jobs. A turn lasts until the job does something that takes time. Rates are
  computed again where a burst ends or begins. Whether an iteration or a paced burst has to wait is
  decided in the turn in which it could begin.
- Lateness of a job with windows of iterations is now less its planned moment as of its turn. Beyond
  the tolerance the plans of the whole group move by it at once. So of two jobs late at one moment,
  the second adds only what remains, or is early and waits.
- A waiting job begins in its turn at the planned moment, unless that has moved.
- A step of a growing share comes in the turn in which the end of its burst would.
- Under `tcp`, of bursts that begin at one moment, all but the first meet another one.
- The last iteration of a job is never late.
- A policy decides after the turn in which a job ends its last iteration, before all later turns,
  also about arrivals at that moment; otherwise after all turns.
"""
