#!/usr/bin/env bash
# Installs the system packages that a list names, one a line; says nothing when all are there:  install-packages.sh LIST
set -euo pipefail
mapfile -t packages < <(grep -v '^#' "$1")

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

if command -v apt-get >/dev/null; then
  missing=()
  for package in "${packages[@]}"; do installed "$package" || missing+=("$package"); done
  if [ ${#missing[@]} -gt 0 ]; then
    echo "setup: installing ${missing[*]}"
    as_root=()
    if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
    export DEBIAN_FRONTEND=noninteractive
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  fi
elif [ ! -e .cache/system-packages-are-there ]; then
  echo "setup: this system has no apt-get. RouteOPD needs these packages (Debian's names):" >&2
  printf '  %s\n' "${packages[@]}" >&2
  echo "Install them by your system's own means, then: mkdir -p .cache && touch .cache/system-packages-are-there" >&2
  exit 1
fi
