# `pagecast serve` in a container, from the package that `make dist` made: `docker build --file
# dist/server.Dockerfile target/dist`. Mount tables at /data; users, certificate and key at
# /etc/pagecast.
FROM debian:12-slim
COPY pagecast_*.deb /tmp/
RUN dpkg -i /tmp/pagecast_*.deb \
    && rm /tmp/pagecast_*.deb \
    && useradd --system --uid 999 --create-home pagecast
USER 999
VOLUME /data
EXPOSE 5432 31337
ENTRYPOINT ["pagecast"]
CMD ["serve", "--data", "/data", "--listen", "0.0.0.0:5432", "--users", "/etc/pagecast/users.txt", \
     "--tls-cert", "/etc/pagecast/cert.pem", "--tls-key", "/etc/pagecast/key.pem"]
