// HTTP clients in a process of their own: the requested number of connections, kept open, with
// requests that are encoded beforehand. Measures the time of each answer in milliseconds.
//
// Closed loop: a connection sends its next request once it has its answer. Open loop: requests are
// due at fixed times, whether or not the server keeps up, and their time counts from when they are
// due. Requests that are due in the same millisecond are sent together.

import { connect, type Socket } from "node:net";

/** A measurement that the parent requests. */
export interface Load {
  readonly port: number;
  readonly path: string;
  readonly bodies: readonly string[];
  readonly connections: number;
  readonly seconds: number;
  /** Requests a second in an open loop; left out: a closed loop. */
  readonly rate?: number;
}

/** The result of a measurement. */
export interface Measured {
  /** Milliseconds of each answer after the first tenth of the time. */
  readonly times: readonly number[];
  /** Answers a second. */
  readonly rate: number;
  /** Answers with another status than 200. */
  readonly refused: number;
}

process.on("message", (load: Load) => {
  measure(load).then(
    (measured) => process.send?.(measured),
    () => process.exit(1),
  );
});
process.on("disconnect", () => process.exit(0));

async function measure(load: Load): Promise<Measured> {
  const { port, path, bodies, connections, seconds, rate } = load;
  const requests = bodies.map((body) => {
    const length = Buffer.byteLength(body);
    const head = `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json`;
    return Buffer.from(`${head}\r\nContent-Length: ${length}\r\n\r\n${body}`);
  });
  const clients = await Promise.all(Array.from({ length: connections }, () => Client.open(port)));
  const times: number[] = [];
  let [answers, refused, next] = [0, 0, 0];
  const beginMs = performance.now();
  const endMs = beginMs + 1000 * seconds;
  const warmMs = beginMs + 100 * seconds;
  const sendNext = async (client: Client, dueMs: number) => {
    const isGood = await client.request(requests[next++ % requests.length] ?? Buffer.alloc(0));
    const nowMs = performance.now();
    if (!isGood) refused++;
    if (dueMs < warmMs) return;
    answers++;
    times.push(nowMs - dueMs);
  };
  if (rate === undefined) {
    const loop = async (client: Client) => {
      while (performance.now() < endMs) await sendNext(client, performance.now());
    };
    await Promise.all(clients.map(loop));
  } else {
    await openLoop(clients, sendNext, { beginMs, endMs, everyMs: 1000 / rate });
  }
  const rateNow = (1000 * answers) / (performance.now() - warmMs);
  for (const client of clients) client.close();
  return { times, rate: rateNow, refused };
}

async function openLoop(
  clients: readonly Client[],
  sendNext: (client: Client, dueMs: number) => Promise<void>,
  { beginMs, endMs, everyMs }: { beginMs: number; endMs: number; everyMs: number },
): Promise<void> {
  const free = [...clients];
  const due: number[] = [];
  const send = () => {
    while (due.length > 0 && free.length > 0) {
      const client = free.pop() as Client;
      void sendNext(client, due.shift() as number).then(() => {
        free.push(client);
        send();
      });
    }
  };
  let dueMs = beginMs;
  while (dueMs < endMs) {
    for (const nowMs = performance.now(); dueMs <= nowMs && dueMs < endMs; dueMs += everyMs) {
      due.push(dueMs);
    }
    send();
    await tick();
  }
  while (due.length > 0 || free.length < clients.length) {
    // Gives up waiting for a server that is more than a second behind.
    if (performance.now() > endMs + 1000) break;
    await tick();
  }
}

/**
 * Resolves in a millisecond. Clients that polled the clock would take a whole core, and with it the
 * time of the server's garbage-collection threads.
 */
function tick(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 1));
}

/** A connection with at most one request in flight. */
class Client {
  readonly #socket: Socket;
  #text = "";
  #done: (isGood: boolean) => void = () => {};

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.setEncoding("latin1");
    socket.on("data", (data: string) => this.#receive(data));
    socket.on("close", () => this.#done(false));
    socket.on("error", () => {});
  }

  static open(port: number): Promise<Client> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, "127.0.0.1", () => resolve(new Client(socket)));
      socket.once("error", reject);
    });
  }

  request(request: Buffer): Promise<boolean> {
    return new Promise((resolve) => {
      this.#done = resolve;
      this.#socket.write(request);
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #receive(data: string): void {
    this.#text += data;
    const head = this.#text.indexOf("\r\n\r\n");
    if (head < 0) return;
    const length = Number(/content-length: (\d+)/i.exec(this.#text)?.[1] ?? 0);
    if (this.#text.length < head + 4 + length) return;
    const isGood = this.#text.startsWith("HTTP/1.1 200");
    this.#text = "";
    this.#done(isGood);
  }
}
