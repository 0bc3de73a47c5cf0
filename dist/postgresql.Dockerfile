# PostgreSQL's own image with the extension, from the package that `make dist` made: `docker build
# --file dist/postgresql.Dockerfile --build-arg MAJOR=17 target/dist`.
ARG MAJOR=17
FROM postgres:${MAJOR}-bookworm
ARG MAJOR
COPY postgresql-${MAJOR}-pagecast_*.deb /tmp/
RUN dpkg -i /tmp/postgresql-*.deb \
    && rm /tmp/postgresql-*.deb \
    && echo 'CREATE EXTENSION pg_pagecast;' > /docker-entrypoint-initdb.d/pg_pagecast.sql
CMD ["postgres", "-c", "shared_preload_libraries=pg_pagecast"]
