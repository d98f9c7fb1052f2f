# One image for every role: `scoregate serve`, `steward`, `worker`, `up`, ...
FROM python:3.13-slim AS build
WORKDIR /src
COPY . .
ENV HATCH_BUILD_HOOK_ENABLE_CUSTOM=true
RUN python -m venv /opt/scoregate && /opt/scoregate/bin/pip install --no-cache-dir ./clients/python ".[s3]"

FROM python:3.13-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /var/lib/scoregate --create-home scoregate
COPY --from=build /opt/scoregate /opt/scoregate
ENV PATH=/opt/scoregate/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    SCOREGATE_DATA_DIR=/var/lib/scoregate \
    SCOREGATE_BIND=0.0.0.0:8080 \
    SCOREGATE_LOG_TO=stdout \
    SCOREGATE_HOSTS=localhost:8080,127.0.0.1:8080
USER scoregate
VOLUME /var/lib/scoregate
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=4s --start-period=15s CMD ["scoregate", "health"]
ENTRYPOINT ["scoregate"]
CMD ["up"]
