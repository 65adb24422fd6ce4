# The server in a container: `docker build --tag offprompt .`
#
# The first stage builds; of it the second has what was installed and nothing else. No secret is asked for meanwhile.
# What is installed stands in constraints.txt by version; give BASE by digest to fix what it stands on too.

ARG BASE=python:3.13-slim-bookworm

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /build
COPY . .
RUN python -m venv /opt/offprompt \
    && /opt/offprompt/bin/pip install --no-compile --constraint constraints.txt \
        '.[serve,postgres,redis,mcp,oidc,otel,documents]' \
    && /opt/offprompt/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/offprompt/lib \
    && /opt/offprompt/bin/pip uninstall --yes --quiet pip

FROM ${BASE}
LABEL org.opencontainers.image.title="offprompt" \
    org.opencontainers.image.description="Memory for LLM agents that stays off the prompt" \
    org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --system --gid 10001 offprompt \
    && useradd --system --uid 10001 --gid 10001 --home-dir /data --no-create-home offprompt \
    && install --directory --owner 10001 --group 10001 --mode 0700 /data
COPY --from=build /opt/offprompt /opt/offprompt
ENV PATH=/opt/offprompt/bin:$PATH \
    HOME=/data \
    OFFPROMPT_URL=/data/offprompt.db \
    PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 7333

# Alive, whatever the store does: a store that is away is not mended by starting this again. `/ready` asks the store.
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:7333/health', timeout=4)"]
ENTRYPOINT ["offprompt"]
CMD ["serve", "--host", "0.0.0.0"]
