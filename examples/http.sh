#!/usr/bin/env bash
# A travel assistant's memory over HTTP, with curl: any program in any language can do the same.
# After `make demo` and `pip install 'offprompt[serve]'`: PATH="$PWD/.venv/bin:$PATH" examples/http.sh
set -euo pipefail
folder=$(mktemp -d) && cd "$folder" # so that it can be run again
: >said
offprompt serve --url travel.db --port 0 --log off --json >said &
server=$!
trap 'kill $server; wait $server; rm -rf "$folder"' EXIT
until grep -q token_file said; do sleep 0.1; done
said() { grep -o "\"$1\": \"[^\"]*\"" said | cut -d '"' -f 4; }
url=$(said url) key=$(cat "$(said token_file)") # elsewhere a key of `offprompt key create`

ask() { # METHOD PATH [curl's options…]: in the scope of one user
    curl --silent --show-error --request "$1" "$url$2" --header "Authorization: Bearer $key" \
        --header "Offprompt-User: %E6%9D%8E%E6%98%8E" "${@:3}"
    echo
}
status() { ask "$@" --output /dev/null --write-out '%{http_code}'; }

# Exact state: one name, one value.
ask POST /mem/write --json '{"slot": "回复风格", "value": "简洁，用中文"}'
ask GET /mem/read --get --data-urlencode "slot=回复风格"

# Two writers: the second one is told, nothing is lost.
status PUT /v1/slots/trip --json '{"value": {"city": "Lisbon", "nights": 4}}' --header 'If-None-Match: *'
status PUT /v1/slots/trip --json '{"value": {"city": "Lisbon", "nights": 5}}' --header 'If-Match: "1"'
status PUT /v1/slots/trip --json '{"value": {"city": "Porto", "nights": 2}}' --header 'If-Match: "1"'

# Found by meaning. A change that is sent again is made once.
for _ in 1 2; do
    status POST /v1/memories --json '{"what": "I am allergic to peanuts"}' --header 'Idempotency-Key: trip-1'
done
ask POST /v1/memories/recall --json '{"query": "What am I allergic to?", "top_k": 1}' | grep -o '"text":"[^"]*"'

# Forget hides, and can be undone; what is not there is a problem that says so.
ask POST /mem/forget --json '{"slot": "trip"}'
status GET /v1/slots/trip
status POST /v1/slots/trip/undo

# prints:
# {"slot":"回复风格","version":1}
# {"slot":"回复风格","value":"简洁，用中文"}
# 201
# 200
# 412
# 200
# 200
# "text":"I am allergic to peanuts"
# {"slot":"trip"}
# 404
# 200
