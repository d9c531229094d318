# The image that TIRA executes: topics and corpus in, one run per system out, without a network.
#   docker build -t aragorn .                                                                    for CUDA GPUs, and CPUs
#   docker build -t aragorn --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cpu .       for CPUs only, smaller
#   docker build -t aragorn --build-arg RAY=yes .                                                for the nodes of a cluster, too
#   docker build -t aragorn --build-arg OPENVINO=yes .                                           for bfloat16 on CPUs, too
ARG BASE=docker.io/library/python:3.11.14-slim-bookworm@sha256:65a93d69fa75478d554f4ad27c85c1e69fa184956261b4301ebaf6dbb0a3543d
FROM $BASE

ARG TORCH_INDEX=https://pypi.org/simple
ARG RAY=
ARG OPENVINO=
COPY requirements.txt requirements-ray.txt requirements-openvino.txt requirements.lock /aragorn/
# pip of a version that takes hashes from a constraints file; wheels only: nothing is compiled, and no compiler is needed.
ENV PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1
RUN echo "pip==26.3 --hash=sha256:f3b60b20ffaadd4415ed7957212a38ac63fa4c5fa375bd0f4a797777940fad13" > /tmp/pip.txt \
 && pip install --require-hashes --requirement /tmp/pip.txt \
 && rm /tmp/pip.txt \
 && pip install --require-hashes --only-binary=:all: --extra-index-url "$TORCH_INDEX" \
        --requirement /aragorn/requirements.txt ${RAY:+--requirement /aragorn/requirements-ray.txt} \
        ${OPENVINO:+--requirement /aragorn/requirements-openvino.txt} --constraint /aragorn/requirements.lock

COPY LICENSE THIRD-PARTY.md run.sh /aragorn/
COPY licenses /aragorn/licenses
COPY checkpoints /aragorn/checkpoints
COPY submission /aragorn/submission
# Compiled now: who runs it may not be allowed to write. Readable whatever the permissions of the checkout were.
RUN python3 -m compileall -q /aragorn/submission \
 && find /aragorn ! -perm -a=r -exec chmod a+r {} + \
 && find /aragorn \( -type d -o -name run.sh \) ! -perm -a=x -exec chmod a+x {} +

ARG VERSION=2.0.0
ARG REVISION=unknown
ARG SOURCE=
ENV ARAGORN_REVISION=$REVISION ARAGORN_SOURCE=$SOURCE
LABEL org.opencontainers.image.title="Aragorn" \
      org.opencontainers.image.description="Argument retrieval for controversial questions (Touché, Task 1)" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.source="$SOURCE" \
      org.opencontainers.image.licenses="MIT AND Apache-2.0 AND BSD-3-Clause AND CC-BY-4.0 AND CC-BY-SA-4.0" \
      org.opencontainers.image.base.name="docker.io/library/python:3.11.14-slim-bookworm"

# Arguments after the image's name are a verb and flags of run.sh. TIRA replaces the entry point: /aragorn/run.sh …
ENTRYPOINT ["/aragorn/run.sh"]
