// A hand-written client of the NATS protocol, for input that a well-behaved client never sends.

import { connect, type Socket } from "node:net";

export interface RawClient extends Disposable {
  readonly socket: Socket;
  /** Everything that has arrived so far. */
  text(): string;
  send(...lines: readonly string[]): void;
  /** Resolves when the received text contains `part`; rejects if the socket closes before. */
  until(part: string): Promise<string>;
  readonly closed: Promise<void>;
}

/** Opens a socket to a broker and waits for its INFO. */
export async function startRawClient(port: number): Promise<RawClient> {
  const socket = connect(port, "127.0.0.1");
  let arrived = "";
  let isClosed = false;
  const waiting = new Set<(chunk: string) => void>();
  const wake = (chunk: string) => {
    for (const look of [...waiting]) look(chunk);
  };
  const closed = new Promise<void>((resolve) => {
    socket.on("close", () => {
      isClosed = true;
      wake("");
      resolve();
    });
  });
  socket.on("error", () => undefined);
  socket.on("data", (chunk: Buffer) => {
    const text = chunk.toString("latin1");
    arrived += text;
    wake(text);
  });
  const until = (part: string) =>
    new Promise<string>((resolve, reject) => {
      // The end of the text already searched: a chunk is not compared with the megabytes before it.
      let end = "";
      const look = (chunk: string) => {
        const text = end + chunk;
        if (!text.includes(part)) {
          end = text.slice(Math.max(0, text.length - part.length + 1));
          if (!isClosed) return;
        }
        waiting.delete(look);
        if (text.includes(part)) resolve(arrived);
        else reject(new Error(`Closed before "${part}"; arrived: ${arrived.slice(-10_000)}`));
      };
      waiting.add(look);
      look(arrived);
    });
  const client: RawClient = {
    socket,
    closed,
    until,
    text: () => arrived,
    send: (...lines) => socket.write(lines.map((line) => `${line}\r\n`).join("")),
    [Symbol.dispose]: () => socket.destroy(),
  };
  await until("\r\n");
  return client;
}
