# SPDX-License-Identifier: Apache-2.0
"""Free TCP ports, held until the daemon that they are for has them."""

import socket
import zlib
from pathlib import Path

from devcluster.layout import DevclusterError, Layout

FIRST_PORT = 10000


class Reservation:
    """Consecutive ports that nobody else can take.

    Each is bound here without SO_REUSEADDR, so that a second devcluster looking for ports is
    refused; then SO_REUSEADDR is set and nothing listens, so that Slurm's daemons, which set it
    too, may bind.
    """

    def __init__(self, first: int, sockets: list[socket.socket]) -> None:
        self.first = first
        self._sockets = sockets

    def release(self) -> None:
        for held in self._sockets:
            held.close()
        self._sockets = []


def _hold(port: int) -> socket.socket | None:
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        held.bind(("", port))
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except OSError:
        held.close()
        return None
    return held


def _hold_block(first: int, count: int) -> list[socket.socket]:
    """Holds a whole block, or nothing."""
    sockets: list[socket.socket] = []
    for port in range(first, first + count):
        held = _hold(port)
        if held is None:
            for other in sockets:
                other.close()
            return []
        sockets.append(held)
    return sockets


def _end_of_range() -> int:
    """Ports from here on are handed out to clients by the kernel."""
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
        low = int(text.split()[0])
    except (OSError, ValueError, IndexError):
        low = 32768
    return low if low > FIRST_PORT + 2000 else 32768


def reserve(layout: Layout, count: int, attempt: int) -> Reservation:
    """Finds `count` free ports in a row; clusters begin their search at different places."""
    end = _end_of_range()
    slots = (end - FIRST_PORT) // count
    start = zlib.crc32(f"{layout.root} {attempt}".encode())
    for step in range(slots):
        first = FIRST_PORT + (start + step) % slots * count
        sockets = _hold_block(first, count)
        if sockets:
            return Reservation(first, sockets)
    raise DevclusterError(f"no {count} free TCP ports in a row between {FIRST_PORT} and {end}")


def listening() -> set[int]:
    """The TCP ports that somebody listens on; looking disturbs no daemon, connecting would."""
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == "0A":
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports
