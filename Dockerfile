# The image that TIRA executes: topics and corpus in, one run per system out, without a network.
#   docker build -t aragorn .                              for CUDA GPUs, and CPUs
#   docker build -t aragorn --build-arg TORCH=cpu .        for CPUs only, smaller
#   docker build -t aragorn --build-arg RAY=yes .          for the nodes of a cluster, too
#   docker build -t aragorn --build-arg OPENVINO=yes .     for bfloat16 on CPUs, too
ARG BASE=docker.io/library/python:3.11.14-slim-bookworm@sha256:65a93d69fa75478d554f4ad27c85c1e69fa184956261b4301ebaf6dbb0a3543d
FROM $BASE

ARG TORCH=cuda
ARG TORCH_LINKS=https://download.pytorch.org/whl/cpu/torch/
ARG RAY=
ARG OPENVINO=
COPY requirements.lock requirements-cpu.lock requirements-cuda.lock requirements-ray.lock requirements-openvino.lock /aragorn/
# Wheels only: nothing is compiled, and no compiler is needed. Deleted in the layer that installs: tests, headers and
# programs of PyTorch that ranking does not use.
RUN cd /aragorn \
 && pip install --no-cache-dir --root-user-action=ignore --disable-pip-version-check --no-compile \
        --no-deps --require-hashes --only-binary=:all: --find-links "$TORCH_LINKS" \
        -r requirements.lock -r requirements-$TORCH.lock \
        ${RAY:+-r requirements-ray.lock} ${OPENVINO:+-r requirements-openvino.lock} \
 && cd "$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
 && find torch/bin -type f ! -name torch_shm_manager -delete \
 && rm -rf torch/test torch/include \
 && find . -type d -name tests -not -path './torch/*' -prune -exec rm -rf {} +

COPY LICENSE THIRD-PARTY.md run.sh /aragorn/
COPY licenses /aragorn/licenses
COPY checkpoints /aragorn/checkpoints
COPY submission /aragorn/submission
# Readable whatever the permissions of the checkout were. These verbs test all checkpoints, and write the byte code of the
# modules that are used: who runs the image may not be allowed to write.
RUN touch /aragorn/.installed && ln -s /aragorn/run.sh /usr/local/bin/aragorn \
 && find /aragorn ! -perm -a=r -exec chmod a+r {} + \
 && find /aragorn \( -type d -o -name '*.sh' \) ! -perm -a=x -exec chmod a+x {} + \
 && aragorn rank -o /tmp/warm --system sbert --system bm25_rm3 && rm -r /tmp/warm \
 && aragorn check && aragorn search --system knrm --explain zoos \
 && python3 -m compileall -q /aragorn/submission

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
