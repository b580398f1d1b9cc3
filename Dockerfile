# The image of the action, and of GitLab and Jenkins jobs (docs/recipes.md).
# A tag, not a digest: GitHub builds this file on every job of a workflow that uses a branch, and whoever can't reach
# the registry names another base with --build-arg. Releases pin the digest of the finished image in gate/action.yml.
ARG BASE_IMAGE=python:3.13-slim

# hadolint ignore=DL3006
FROM ${BASE_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore \
    UV_LINK_MODE=copy \
    UV_PYTHON_DOWNLOADS=never
WORKDIR /src
COPY requirements/build.txt requirements/build.txt
RUN pip install --no-cache-dir --target /opt/build --require-hashes --requirement requirements/build.txt
ENV PATH=/opt/build/bin:$PATH
# Dependencies change less often than our own code: they are a layer of their own.
# Left out is what no run opens; a name that is gone after an update is no error, and test_container_gate.py finds
# whatever is missing. Packages: what nltk needs beyond its stemmer and rouge_score beyond its tokenizer; rich's
# Markdown and syntax; how cryptography's bindings are generated; google-auth's signatures without cryptography.
# Files: tests, stubs for type checkers, parts of nltk, numpy, pydantic and the clients of models (what they import only
# for the services of these names), and programs.
COPY requirements/run.txt requirements/run.txt
# hadolint ignore=DL3003
RUN uv venv /opt/agent-eval \
    && uv pip install --no-cache --python /opt/agent-eval --require-hashes --requirement requirements/run.txt \
    && uv pip uninstall --python /opt/agent-eval absl-py click cloudpickle defusedxml joblib tqdm \
        markdown-it-py mdurl pygments pycparser pyasn1 pyasn1-modules \
    && cd /opt/agent-eval/lib/python3*/site-packages \
    && find . -type d \( -name tests -o -name test \) -prune -exec rm -rf {} + \
    && find . \( -name '*.pyi' -o -name '*.pxd' -o -name '*.a' -o -name '*.h' \) -delete \
    && find nltk -mindepth 1 -maxdepth 1 -type d ! -name stem -exec rm -rf {} + \
    && rm -rf numpy/f2py numpy/fft numpy/ma numpy/polynomial numpy/_core/_simd.* pydantic/v1 cffi \
        google/genai/_gaos openai/*/admin openai/*/beta openai/*/live openai/*/realtime \
    && find /opt/agent-eval/bin -type f ! -name agent-eval ! -name uv -delete
COPY . .
RUN uv pip install --no-cache --python /opt/agent-eval --build-constraints requirements/build.txt --no-deps . \
    && rm -f /opt/agent-eval/.lock \
    && cp tools/image_imports.py /opt/agent-eval/imports.py

# hadolint ignore=DL3006
FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="agent-eval-action" \
      org.opencontainers.image.description="A CI gate for LLM agents: runs Google ADK eval files and turns the scores into one verdict." \
      org.opencontainers.image.licenses="Apache-2.0"
# The workspace belongs to another user than root; without safe.directory git refuses to read it.
# `agent` is who the evaluated agent runs as: it can't read root's environment, files and sockets.
# git asks for Perl (57 MB) for commands that neither we nor an agent's build use (send-email, svn, cvs). Its record
# is rewritten rather than Perl removed by force, so that apt stays in order for an `agent-setup` that installs packages.
# git's servers go too, and the second copies of its programs.
# hadolint ignore=DL3003,DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends git \
    && sed -i '/^Package: git$/,/^$/ { /^Depends:/ s/, \(perl\|liberror-perl\|git-man\)\( ([^)]*)\)\?//g }' /var/lib/dpkg/status \
    && apt-get purge -y --auto-remove git-man liberror-perl perl \
    && apt-get check \
    && cd /usr/lib/git-core \
    && rm -f /usr/bin/scalar /usr/bin/git-shell scalar git-shell git-daemon git-http-backend git-http-fetch git-http-push \
        git-imap-send \
    && ln -sf /usr/bin/git git \
    && rm -rf /usr/share/gitweb /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/lib/dpkg/*-old \
    && git config --system --add safe.directory '*' \
    && groupadd --gid 10001 agent \
    && useradd --uid 10001 --gid 10001 --create-home --shell /usr/sbin/nologin agent \
    && chmod 700 /home/agent
COPY --from=build /opt/agent-eval /opt/agent-eval
COPY entrypoint /entrypoint
# Bytecode of what a run imports and of nothing else. Of Python's own modules, too: the official image has none of it.
RUN ["/opt/agent-eval/bin/python", "-I", "/opt/agent-eval/imports.py"]
# Behind the base's own directories, so that `python` stays the base's: agents' environments are made from that one.
ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/agent-eval/bin
# No USER: GitHub's mounts belong to the runner's user and need root (docs.github.com, "Dockerfile support").
# -I: neither PYTHONPATH nor the checkout may put modules in our way.
ENTRYPOINT ["/opt/agent-eval/bin/python", "-I", "/entrypoint"]
