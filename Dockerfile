FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags="-s -w" -o /paysaga ./cmd/paysaga

# No shell, no package manager, no root: certificates, time zones and the program.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /paysaga /paysaga
USER nonroot
# Inside a container the loopback default could not be reached.
ENV PAYSAGA_ADDR=0.0.0.0:8080
EXPOSE 8080
# There is nothing in the image that could probe the server from inside: probe /healthz (is it alive) and /readyz (send it
# requests) from outside. It drains for PAYSAGA_DRAIN_TIMEOUT after SIGTERM; let it, before killing it.
ENTRYPOINT ["/paysaga"]
CMD ["serve"]
