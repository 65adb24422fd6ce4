#!/usr/bin/env bash
# What tests start and no Python package brings: Redis, and the curl of the examples, from the system's own packages
# where that is ours.
set -euo pipefail

lacking=()
command -v redis-server >/dev/null || lacking+=(redis-server)
command -v curl >/dev/null || lacking+=(curl)
if ((${#lacking[@]})) && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq </dev/null >/dev/null
    apt-get install -y -qq --no-install-recommends "${lacking[@]}" </dev/null >/dev/null
fi
command -v redis-server >/dev/null || echo "redis-server is not installed: tests on Redis are left out (install it to run them)"
command -v curl >/dev/null || echo "curl is not installed: tests of what the server prints and of examples/http.sh fail (install it)"
