// Where the page's data come from: its stream, the answers to its questions, or what a report has
// inside it. A lost stream comes back by itself and asks for what it missed.

import type { Hello, ReportChanges, ToldEvent } from "../server/page-api.ts";

/** What a stream tells. */
export interface FeedListener {
  hello(hello: Hello): void;
  told(events: readonly ToldEvent[]): void;
  report(changes: ReportChanges): void;
  /** Whether the stream is there. */
  connected(isConnected: boolean): void;
}

/** After so long without any message the stream is opened anew. Heartbeats come every 15 s. */
const silenceMs = 40_000;
/** The browser gives up a stream that was refused: it is opened again after this. */
const againMs = 2000;

/** Opens the one stream of this tab, and keeps it open. */
export function openFeed(listener: FeedListener): void {
  const source = new EventSource("/api/stream");
  let heardAtMs = Date.now();
  const on = (name: string, take: (data: string) => void) => {
    source.addEventListener(name, (message) => {
      heardAtMs = Date.now();
      take((message as MessageEvent<string>).data);
    });
  };
  on("hello", (data) => {
    listener.connected(true);
    listener.hello(JSON.parse(data) as Hello);
  });
  on("told", (data) => listener.told(JSON.parse(data) as ToldEvent[]));
  on("report", (data) => listener.report(JSON.parse(data) as ReportChanges));
  const reopen = () => {
    clearInterval(watch);
    source.close();
    openFeed(listener);
  };
  const watch = setInterval(() => {
    // A comment is no message: a quiet cluster is asked whether it is there.
    if (Date.now() - heardAtMs < silenceMs) return;
    heardAtMs = Date.now();
    fetch("/api/runs", { method: "HEAD" }).catch(reopen);
  }, silenceMs / 4);
  source.onerror = () => {
    listener.connected(false);
    if (source.readyState !== EventSource.CLOSED) return; // It tries again by itself.
    clearInterval(watch);
    setTimeout(() => openFeed(listener), againMs);
  };
}

/** A question. @throws Error with what the server says */
export async function get<Answer>(path: string): Promise<Answer> {
  return await answerOf<Answer>(await fetch(path));
}

/** Items of one answer: a piece is parsed at once, and between pieces the page draws. */
const pieceMax = 400;

/** A long list, asked for in pieces. @throws Error with what the server says */
export async function getAll<Item>(path: string): Promise<readonly Item[]> {
  const all: Item[] = [];
  for (;;) {
    const between = path.includes("?") ? "&" : "?";
    const piece = await get<Item[]>(`${path}${between}first=${all.length}&most=${pieceMax}`);
    for (const item of piece) all.push(item);
    if (piece.length < pieceMax) return all;
  }
}

/** A change. @throws Error with what the server says */
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
