# The image of registry-controller: Python, CA certificates and the program, without a shell and without pip.
#
#   docker build --build-arg VERSION=0.1.0 --tag registry-controller:0.1.0 .
#
# BASE needs glibc, Python 3.11.3 or newer with venv and pip, and CA certificates. PIP_CERT and PIP_INDEX_URL name
# the CA file and the package index of a mirror, for the build only.
ARG BASE=docker.io/library/python:3.14-slim

FROM ${BASE} AS build
ARG PIP_CERT
ARG PIP_INDEX_URL
WORKDIR /src
# The build tools have a virtual environment of their own: the system's packages belong to the system's package manager.
COPY requirements/otel.lock requirements/build.lock requirements/
RUN python -m venv /tools \
 && python -m venv --without-pip /app \
 && /tools/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/build.lock \
 && /tools/bin/pip --python /app/bin/python install --no-cache-dir --disable-pip-version-check --no-compile \
      --only-binary :all: --require-hashes -r requirements/otel.lock
COPY pyproject.toml README.md LICENSE ./
COPY crds crds
COPY registry_controller registry_controller
RUN /tools/bin/pip wheel --no-cache-dir --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir dist . \
 && /tools/bin/pip --python /app/bin/python install --no-cache-dir --disable-pip-version-check --no-compile --no-deps \
      dist/*.whl
COPY hack/programs/image/assemble.py assemble.py
RUN /app/bin/python -B assemble.py /image

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="registry-controller" \
      org.opencontainers.image.description="Peer-to-peer sync for groups of Kubernetes clusters" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}"
COPY --from=build /image /
ENV PATH=/app/bin PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# A number, so that Kubernetes can tell that it is not root.
USER 65532:65532
ENTRYPOINT ["registry-controller"]
CMD ["run"]
