# The image of registry-controller: the locked packages and this checkout's wheel, and nothing else.
FROM python:3.11-slim AS build
WORKDIR /src
COPY requirements/run.lock requirements/build.lock requirements/
RUN python -m venv --without-pip /app \
 && pip --python /app/bin/python install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/run.lock \
 && pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/build.lock
COPY pyproject.toml README.md LICENSE ./
COPY crds crds
COPY registry_controller registry_controller
RUN pip wheel --no-cache-dir --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir dist . \
 && pip --python /app/bin/python install --no-cache-dir --disable-pip-version-check --no-deps dist/*.whl

FROM python:3.11-slim
COPY --from=build /app /app
ENV PATH=/app/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# A number, so that Kubernetes can tell that it is not root.
USER 65532:65532
ENTRYPOINT ["registry-controller"]
CMD ["run"]
