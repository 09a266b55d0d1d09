# syntax=docker/dockerfile:1
# One file, three images:
#   docker build --target gpu -t guided-server:gpu .
#   docker build --target bedrock -t guided-bedrock .
#   docker build --target cpu -t guided-server:cpu --build-arg PIP_EXTRA_INDEX_URL=<PyTorch's CPU index, named on pytorch.org> .
# All run as user 10001 and hold no secrets: keys and tokens come from the environment. docs/deployment.md says more.

ARG GPU_BASE_IMAGE=vllm/vllm-openai:v0.32.0
ARG CPU_BASE_IMAGE=python:3.11-slim

# --- the project as one wheel, the same for both ----------------------------------------------------------------------
FROM ${CPU_BASE_IMAGE} AS wheel
WORKDIR /src
COPY requirements/build.txt requirements/build.txt
RUN python3 -m venv /build && /build/bin/pip install --no-cache-dir --no-deps -r requirements/build.txt
COPY pyproject.toml README.md ./
COPY guided guided
COPY server server
RUN /build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /dist .

# --- CPU: everything from the lock file, in an environment of its own -------------------------------------------------
FROM ${CPU_BASE_IMAGE} AS cpu-packages
# The index with PyTorch's CPU build; without it pip takes the CUDA build, and the check below ends the build.
ARG PIP_EXTRA_INDEX_URL
COPY requirements/cpu.txt /tmp/cpu.txt
COPY scripts/check_torch.py /tmp/check_torch.py
RUN python3 -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --no-deps -r /tmp/cpu.txt \
    && /opt/venv/bin/python /tmp/check_torch.py cpu
RUN --mount=type=bind,from=wheel,source=/dist,target=/dist \
    /opt/venv/bin/pip install --no-cache-dir --no-deps /dist/*.whl

FROM ${CPU_BASE_IMAGE} AS cpu
# vLLM's CPU kernels load it, and no wheel brings it. A version would vanish from Debian's mirrors with the next one.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends libnuma1 && rm -rf /var/lib/apt/lists/*
COPY --from=cpu-packages /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH
COPY deploy/image/prepare.sh deploy/image/warm.py /opt/guided/
# Compiled kernels have to fit any machine of the cluster, not the one that built the image.
ENV NUMBA_CPU_NAME=x86-64-v3 NUMBA_CPU_FEATURES="" \
    GUIDED_CACHE_DIR=/opt/guided/cache NUMBA_CACHE_DIR=/opt/guided/cache/numba HOME=/opt/guided/home
# vLLM takes the kernels that the builder's processor knows and goes on without any: asked for is one of them.
RUN sh /opt/guided/prepare.sh \
    && python3 -c "import torch, vllm.platforms as p; p.current_platform.import_kernels(); torch.ops._C.silu_and_mul"
USER 10001:10001
WORKDIR /opt/guided
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=15m --retries=4 \
    CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["guided-server"]
CMD ["--host", "0.0.0.0", "--port", "8000"]
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="guided-server" \
    org.opencontainers.image.description="OpenAI-compatible guided decoding on vLLM, CPU build" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.base.name="python:3.11-slim"

# --- GPU: vLLM's own image and what it lacks. Its packages are vLLM's choice and stay as they are ------------------
FROM ${GPU_BASE_IMAGE} AS gpu
USER 0
COPY requirements/gpu.txt /tmp/gpu.txt
# redis is the one package of gpu.txt that vLLM's image does not bring; warm.py names any other.
RUN --mount=type=bind,from=wheel,source=/dist,target=/dist \
    grep '^redis==' /tmp/gpu.txt > /tmp/more.txt \
    && PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install --no-cache-dir --no-deps -r /tmp/more.txt /dist/*.whl \
    && rm /tmp/gpu.txt /tmp/more.txt
COPY deploy/image/prepare.sh deploy/image/warm.py /opt/guided/
ENV NUMBA_CPU_NAME=x86-64-v3 NUMBA_CPU_FEATURES="" \
    GUIDED_CACHE_DIR=/opt/guided/cache NUMBA_CACHE_DIR=/opt/guided/cache/numba HOME=/opt/guided/home
RUN sh /opt/guided/prepare.sh
USER 10001:10001
WORKDIR /opt/guided
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=15m --retries=4 \
    CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["guided-server"]
CMD ["--host", "0.0.0.0", "--port", "8000"]
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="guided-server" \
    org.opencontainers.image.description="OpenAI-compatible guided decoding on vLLM, CUDA build" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.base.name="vllm/vllm-openai:v0.32.0"

# --- Bedrock: the gateway without an engine of its own, for Fargate and Lambda; its packages are 60 MB ----------------------
FROM ${CPU_BASE_IMAGE} AS bedrock-packages
COPY requirements/bedrock.txt /tmp/bedrock.txt
RUN python3 -m venv /opt/venv && /opt/venv/bin/pip install --no-cache-dir --no-deps -r /tmp/bedrock.txt
RUN --mount=type=bind,from=wheel,source=/dist,target=/dist \
    /opt/venv/bin/pip install --no-cache-dir --no-deps /dist/*.whl
RUN /opt/venv/bin/python -c "import awslambdaric, server.bedrock.start, server.bedrock.check_worker"

FROM ${CPU_BASE_IMAGE} AS bedrock
COPY --from=bedrock-packages /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=1m --retries=4 \
    CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["python3", "-m", "server.bedrock.start"]
CMD ["--host", "0.0.0.0", "--port", "8000"]
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="guided-bedrock" \
    org.opencontainers.image.description="OpenAI-compatible guided answers from Amazon Bedrock" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.base.name="python:3.11-slim"
