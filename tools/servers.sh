#!/usr/bin/env bash
# Servers that tests start and that no Python package brings: Redis, from the system's own packages where that is ours.
set -euo pipefail

if ! command -v redis-server >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq </dev/null >/dev/null
    apt-get install -y -qq --no-install-recommends redis-server </dev/null >/dev/null
fi
command -v redis-server >/dev/null || echo "redis-server is not installed: tests on Redis are left out (install it to run them)"
