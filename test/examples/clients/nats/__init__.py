"""The part of nats-py's interface that examples/submit_job.py uses, over a plain socket, so that the
example runs where the package cannot be installed. The protocol on the wire is the same."""

import asyncio
import json
from urllib.parse import urlparse

from nats import errors


class Message:
    def __init__(self, subject, data):
        self.subject = subject
        self.data = data


class Subscription:
    def __init__(self):
        self.arrived = asyncio.Queue()

    async def next_msg(self, timeout=1.0):
        try:
            return await asyncio.wait_for(self.arrived.get(), timeout)
        except asyncio.TimeoutError:
            raise errors.TimeoutError


class Client:
    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer
        self.subscriptions = {}
        self.reading = asyncio.ensure_future(self.read())

    async def read(self):
        while line := (await self.reader.readline()).decode().split():
            if line[0] == "PING":
                self.writer.write(b"PONG\r\n")
            elif line[0] in ("MSG", "HMSG"):
                data = (await self.reader.readexactly(int(line[-1]) + 2))[:-2]
                headers = int(line[-2]) if line[0] == "HMSG" else 0
                self.subscriptions[line[2]].arrived.put_nowait(Message(line[1], data[headers:]))
            elif line[0] == "-ERR":
                raise RuntimeError(" ".join(line))

    async def subscribe(self, subject):
        sid = str(len(self.subscriptions) + 1)
        self.subscriptions[sid] = Subscription()
        self.writer.write(f"SUB {subject} {sid}\r\n".encode())
        return self.subscriptions[sid]

    async def request(self, subject, payload=b"", timeout=0.5):
        inbox = f"_INBOX.python.{len(self.subscriptions)}"
        subscription = await self.subscribe(inbox)
        self.writer.write(f"PUB {subject} {inbox} {len(payload)}\r\n".encode() + payload + b"\r\n")
        return await subscription.next_msg(timeout)

    async def close(self):
        self.reading.cancel()
        self.writer.close()


async def connect(server, token=None):
    url = urlparse(server)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    await reader.readline()
    hello = {"verbose": False, "pedantic": False, "headers": True, "auth_token": token}
    writer.write(f"CONNECT {json.dumps(hello)}\r\n".encode())
    return Client(reader, writer)
