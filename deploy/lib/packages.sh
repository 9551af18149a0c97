# Debian 12 packages that Rondo needs, and how to install them; sourced by deploy/quickstart and tests/run.
# shellcheck shell=bash

# To build and run.
RONDO_PACKAGES=(
  build-essential cmake ninja-build pkg-config
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev
  libopenmpi-dev openmpi-bin libboost-dev libpcre2-dev libssl-dev zlib1g-dev
  libcli11-dev nlohmann-json3-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  python3 python3-pip python3-numpy python3-grpcio python3-grpc-tools ca-certificates
)

# Those of "$@" that are not installed, one a line.
rondo_missing_packages() {
  local name
  for name in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null) == installed ]] || echo "$name"
  done
}

# Installs what is missing of "$@", with sudo where we are not root. Does nothing, quickly, when all is there.
rondo_install_packages() {
  local missing as_root=()
  mapfile -t missing < <(rondo_missing_packages "$@")
  ((${#missing[@]} == 0)) && return 0
  if ! command -v apt-get >/dev/null; then
    echo "These Debian packages are missing and there is no apt-get here: ${missing[*]}" >&2
    return 1
  fi
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "Not root and no sudo; as root run: apt-get install ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  echo "installing ${missing[*]}" >&2
  "${as_root[@]}" apt-get update -qq >&2 &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}
