"""A bad cable for machines of tests, where the kernel has no netem: carries Ethernet frames between
pairs of devices, each after a delay, and loses some. Losses are drawn from a seed.

    bad-cable.py DELAY_MS LOSS_SHARE A:B C:D ...     carries frames between A and B, and C and D
    bad-cable.py whole DEVICE                        has DEVICE send whole frames with checksums
"""

import array
import collections
import fcntl
import random
import select
import socket
import struct
import sys
import time

FRAMES_MAX = 20_000  # On their way; more are lost, as in a switch.
OUTGOING = 4  # Frames that this program sent itself.


def send_whole(device):
    """Without offloads the kernel leaves no checksum and no segmentation to the device."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for command in (0x17, 0x1F, 0x25):  # ETHTOOL_STXCSUM, _STSO, _SGSO
            value = array.array("I", [command, 0])
            request = struct.pack("16sP", device.encode(), value.buffer_info()[0])
            try:
                fcntl.ioctl(any_socket, 0x8946, request.ljust(40, b"\0"))  # SIOCETHTOOL
            except OSError as error:
                if command == 0x17:
                    raise SystemExit(f"{device} keeps its checksums: {error}") from error


def open_device(name):
    device = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
    device.bind((name, 0))
    device.setblocking(False)
    return device


def carry(delay, loss, pairs):
    draws = random.Random(1)
    other = {}
    for pair in pairs:
        one, two = (open_device(name) for name in pair.split(":"))
        other[one], other[two] = two, one
    on_their_way = collections.deque()
    print("carrying", flush=True)
    while True:
        now = time.monotonic()
        while on_their_way and on_their_way[0][0] <= now:
            _, device, frame = on_their_way.popleft()
            try:
                device.send(frame)
            except OSError:
                pass  # The cable is cut, or the device is full: the frame is lost.
        wait = max(0.0, on_their_way[0][0] - now) if on_their_way else None
        for device in select.select(list(other), [], [], wait)[0]:
            for _ in range(64):
                try:
                    frame, address = device.recvfrom(65_535)
                except OSError:
                    break
                if address[2] == OUTGOING or draws.random() < loss:
                    continue
                if len(on_their_way) < FRAMES_MAX:
                    on_their_way.append((time.monotonic() + delay, other[device], frame))


if sys.argv[1] == "whole":
    send_whole(sys.argv[2])
else:
    carry(float(sys.argv[1]) / 1000, float(sys.argv[2]), sys.argv[3:])
