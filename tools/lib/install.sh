# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Installs the Debian packages of the given groups of packaging/packages.txt; asks apt only when one
# is missing.
# Use: source tools/lib/install.sh; vetta_install build run

# Prints the packages of the given groups that are not installed.
vetta_missing() {
  local root group words word
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
  for group in "$@"; do
    words=$(sed -n "s/^$group: //p" "$root/packaging/packages.txt")
    [ -n "$words" ] || {
      echo "install: packaging/packages.txt has no group '$group'" >&2
      return 2
    }
    for word in $words; do
      [ "$(dpkg-query -W -f='${db:Status-Status}' "$word" 2>/dev/null)" = installed ] ||
        echo "$word"
    done
  done
}

vetta_install() {
  local found missing=()
  found=$(vetta_missing "$@") || return
  mapfile -t missing < <(printf '%s' "$found")
  [ ${#missing[@]} -gt 0 ] || return 0
  local sudo=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || {
      echo "install: these packages are missing and installing them needs root: ${missing[*]}" >&2
      return 1
    }
    sudo=(sudo)
  fi
  echo "install: ${missing[*]}" >&2
  vetta_no_service_start "${sudo[@]}"
  "${sudo[@]}" apt-get update -qq >&2 || return 1
  local status=0
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o Dpkg::Use-Pty=0 "${missing[@]}" >&2 || status=1
  vetta_service_start_again "${sudo[@]}"
  return $status
}

# The packages bring daemons (slurmctld, slurmd, munge); a dev cluster starts its own. While they
# are installed, a policy-rc.d refuses to start services; one that was there before is left alone.
vetta_no_service_start() {
  [ -e /usr/sbin/policy-rc.d ] && return 0
  printf '#!/bin/sh\n# put here by vetta tools/lib/install.sh\nexit 101\n' |
    "$@" tee /usr/sbin/policy-rc.d >/dev/null
  "$@" chmod 755 /usr/sbin/policy-rc.d
}

vetta_service_start_again() {
  if grep -qs 'vetta tools/lib/install.sh' /usr/sbin/policy-rc.d; then
    "$@" rm -f /usr/sbin/policy-rc.d
  fi
}
