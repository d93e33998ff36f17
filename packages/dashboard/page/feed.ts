// The page's data sources: the event stream, and answers to requests. A lost stream reconnects by
// itself, and requests the missed events.

import type { Hello, ReportChanges, TimedEvent } from "../server/page-api.ts";

/** Receives the messages of a stream. */
export interface FeedListener {
  hello(hello: Hello): void;
  events(events: readonly TimedEvent[]): void;
  report(changes: ReportChanges): void;
  /** Receives whether the stream is connected. */
  connected(isConnected: boolean): void;
}

/** Silence after which a request checks the cluster, and reopens the stream if it fails. */
const silenceMs = 40_000;
/** Delay before reopening a stream that was refused, which the browser does not retry. */
const againMs = 2000;

/** Opens the one stream of this tab, and keeps it open. */
export function openFeed(listener: FeedListener): void {
  const source = new EventSource("/api/stream");
  let receivedAtMs = Date.now();
  const on = (name: string, take: (data: string) => void) => {
    source.addEventListener(name, (message) => {
      receivedAtMs = Date.now();
      take((message as MessageEvent<string>).data);
    });
  };
  on("hello", (data) => {
    listener.connected(true);
    listener.hello(JSON.parse(data) as Hello);
  });
  on("events", (data) => listener.events(JSON.parse(data) as TimedEvent[]));
  on("report", (data) => listener.report(JSON.parse(data) as ReportChanges));
  const reopen = () => {
    clearInterval(watch);
    source.close();
    openFeed(listener);
  };
  const watch = setInterval(() => {
    // Heartbeats (every 15 s) are comments, which are no messages: a quiet cluster is checked.
    if (Date.now() - receivedAtMs < silenceMs) return;
    receivedAtMs = Date.now();
    fetch("/api/runs", { method: "HEAD" }).catch(reopen);
  }, silenceMs / 4);
  source.onerror = () => {
    listener.connected(false);
    if (source.readyState !== EventSource.CLOSED) return; // The browser reconnects by itself.
    clearInterval(watch);
    setTimeout(() => openFeed(listener), againMs);
  };
}

/** Sends a GET request. @throws Error with the server's message */
export async function get<Answer>(path: string): Promise<Answer> {
  return await answerOf<Answer>(await fetch(path));
}

/** Items of one answer: a piece is parsed in one go, and the page can draw between pieces. */
const pieceMax = 400;

/** Requests a long list in pieces. @throws Error with the server's message */
export async function getAll<Item>(path: string): Promise<readonly Item[]> {
  const all: Item[] = [];
  for (;;) {
    const between = path.includes("?") ? "&" : "?";
    const piece = await get<Item[]>(`${path}${between}first=${all.length}&most=${pieceMax}`);
    for (const item of piece) all.push(item);
    if (piece.length < pieceMax) return all;
  }
}

/** Sends a POST request. @throws Error with the server's message */
export async function post<Answer>(path: string, body: unknown): Promise<Answer> {
  const headers = { "content-type": "application/json", "x-osiris-page": "1" };
  const request = { method: "POST", headers, body: JSON.stringify(body) };
  return await answerOf<Answer>(await fetch(path, request));
}

async function answerOf<Answer>(response: Response): Promise<Answer> {
  const answer = (await response.json()) as Answer & { error?: { message: string } };
  if (response.ok) return answer;
  throw new Error(answer.error?.message ?? `The server answers ${response.status}`);
}
