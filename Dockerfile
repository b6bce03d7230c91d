# The command leasehold, alone: a static program, the authorities that TLS trusts, and nothing else.
# `docker build -t leasehold .`; into an image of yours it comes by
#   COPY --from=leasehold /leasehold /usr/local/bin/
FROM rust:1.95-alpine AS build
RUN apk add --no-cache ca-certificates musl-dev
WORKDIR /source
COPY . .
# The image brings this toolchain; the file would have another one fetched for formatting and lints.
RUN rm rust-toolchain.toml && cargo build --release --locked --package leasehold-cli

FROM scratch AS leasehold
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /source/target/release/leasehold /leasehold
# Nobody's. A number, so that Kubernetes sees that it is not root.
USER 65532:65532
ENTRYPOINT ["/leasehold"]

# An image with a program of yours, as compose.yaml uses it: here a shell stands for that.
FROM busybox:stable AS worker
COPY --from=leasehold /leasehold /usr/local/bin/
USER 65532:65532
ENTRYPOINT ["leasehold"]

# What `docker build` makes unless it is told another.
FROM leasehold
