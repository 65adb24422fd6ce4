#!/usr/bin/env bash
# A travel assistant's memory, from the command line: the same slots that an application's sessions use.
# After `make demo`: PATH="$PWD/.venv/bin:$PATH" examples/cli.sh
set -euo pipefail
export OFFPROMPT_URL=travel.db OFFPROMPT_USER=liming@example.com
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT && cd "$folder" # so that it can be run again

offprompt write 回复风格 "简洁，用中文"
offprompt write passport '{"number": "E12345678"}' --json-value --policy never
offprompt write trip '{"city": "Lisbon", "nights": 4}' --json-value --tag 行程

# Only if nobody changed it meanwhile.
offprompt write trip '{"city": "Lisbon", "nights": 5}' --json-value --if-version 1
offprompt write trip '{"city": "Porto"}' --json-value --if-version 1 2>/dev/null || echo "refused, exit code $?"

offprompt forget trip
offprompt slot undo trip
offprompt read trip
offprompt slot list 'p*' --json | grep -c '"policy": "never"'

# A copy while it is in use, and a look at its health.
offprompt backup copy.db >/dev/null
offprompt doctor | tail -1

# prints:
# stored: 回复风格, version 1, card, 18 bytes
# stored: passport, version 1, never, 22 bytes
# stored: trip, version 1, when_asked, 28 bytes
# stored: trip, version 2, when_asked, 28 bytes
# refused, exit code 2
# trip: hidden for now; bring it back with offprompt slot undo trip
# trip: is back, version 2
# {"city":"Lisbon","nights":5}
# 1
# the store is sound
