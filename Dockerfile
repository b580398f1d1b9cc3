# The image of the action, and of GitLab and Jenkins jobs (docs/recipes.md).
# A tag, not a digest: GitHub builds this file on every job of a workflow that uses a branch, and whoever can't reach
# the registry names another base with --build-arg. Releases pin the digest of the finished image in action.yml.
ARG BASE_IMAGE=python:3.13-slim

# hadolint ignore=DL3006
FROM ${BASE_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore \
    UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy \
    UV_PYTHON_DOWNLOADS=never
# Any recent uv will do here; the one that stays in the image is the locked one.
# hadolint ignore=DL3013
RUN pip install --no-cache-dir uv
WORKDIR /src
# Dependencies change less often than our own code: they are a layer of their own.
COPY requirements/run.txt requirements/run.txt
RUN uv venv /opt/agent-eval \
    && uv pip install --no-cache --python /opt/agent-eval --require-hashes --requirement requirements/run.txt
COPY . .
RUN uv pip install --no-cache --python /opt/agent-eval --no-deps . \
    && rm -f /opt/agent-eval/.lock

# hadolint ignore=DL3006
FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="agent-eval-action" \
      org.opencontainers.image.description="A CI gate for LLM agents: runs Google ADK eval files and turns the scores into one verdict." \
      org.opencontainers.image.licenses="Apache-2.0"
# The workspace belongs to another user than root; without safe.directory git refuses to read it.
# `agent` is who the evaluated agent runs as: it can't read root's environment, files and sockets.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends git \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
    && git config --system --add safe.directory '*' \
    && groupadd --gid 10001 agent \
    && useradd --uid 10001 --gid 10001 --create-home --shell /usr/sbin/nologin agent \
    && chmod 700 /home/agent
COPY --from=build /opt/agent-eval /opt/agent-eval
COPY entrypoint /entrypoint
# Behind the base's own directories, so that `python` stays the base's: agents' environments are made from that one.
ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/agent-eval/bin
# No USER: GitHub's mounts belong to the runner's user and need root (docs.github.com, "Dockerfile support").
# -I: neither PYTHONPATH nor the checkout may put modules in our way.
ENTRYPOINT ["/opt/agent-eval/bin/python", "-I", "/entrypoint"]
