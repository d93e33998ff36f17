// A small trained model in a directory of its own, and a server of it, for tests of serving.

import { join } from "node:path";
import type { ExecutionContext } from "ava";
import type { ServerOptions } from "../../../packages/serve/server/models/server-options.ts";
import { type ServeDependencies, serve } from "../../../packages/serve/server/serve.ts";
import type { SampleRecord } from "../../../src/data/records.ts";
import { startDirectory } from "../../data/data-files.ts";
import { startTrained, type Trained } from "../devices/trained.ts";

/** A model that a test can train further. */
export interface TrainedHere extends Trained {
  readonly home: string;
  /** The checkpoint directory. */
  readonly directory: string;
}

/** Trains a model for one step; `tasks`: the number of labels; `rows`: of each table. */
export async function startModel(
  t: Pick<ExecutionContext, "teardown">,
  { tasks = 1, rows = 50 }: { readonly tasks?: number; readonly rows?: number } = {},
): Promise<TrainedHere> {
  const home = startDirectory(t);
  const directory = join(home, "checkpoints");
  const several = tasks === 1 ? {} : { tasks: ["click", "buy"] };
  const trained = await startTrained({
    model: {
      kind: "dlrm",
      dense: 2,
      tables: [
        { name: "A", rows, dim: 4, initScale: 0.3 },
        { name: "B", rows, dim: 4, initScale: 0.3 },
      ],
      bottom: [4],
      top: [8, 1],
      ...several,
    },
    data: { kind: "synthetic", samples: 64, dense: 2, batchSize: 16, cache: join(home, "cache") },
    checkpoint: { directory },
  } as Parameters<typeof startTrained>[0]);
  await trained.train({ cut: 1 });
  return { ...trained, home, directory };
}

/** Records for the model, all different. */
export function recordsOf(count: number, from = 0): SampleRecord[] {
  return Array.from({ length: count }, (_, i) => {
    const at = from + i;
    return { I1: at / 7, I2: -at, A: at % 50, B: [(3 * at) % 50, (at + 1) % 50] };
  });
}

const json = { "content-type": "application/json" };

/** Serves the model on a port of its own until the test ends. */
export async function startServer(
  t: Pick<ExecutionContext, "teardown">,
  options: ServerOptions,
  world: ServeDependencies = {},
) {
  const server = await serve(
    { port: 0, watchMs: 20, deadlineMs: 30_000, leaveMs: 0, drainMs: 5000, ...options },
    world,
  );
  t.teardown(() => server.close());
  const post = async (path: string, body: unknown, headers: Record<string, string> = {}) => {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const sent = { method: "POST", body: text, headers: { ...json, ...headers } };
    const response = await fetch(`${server.url}${path}`, sent);
    return { status: response.status, headers: response.headers, body: await jsonOf(response) };
  };
  const get = async (path: string, headers: Record<string, string> = {}) => {
    const response = await fetch(`${server.url}${path}`, { headers });
    return { status: response.status, body: await jsonOf(response) };
  };
  return { server, post, get };
}

// biome-ignore lint/suspicious/noExplicitAny: a test names what it expects of the body.
async function jsonOf(response: Response): Promise<any> {
  const text = await response.text();
  return text.startsWith("{") ? JSON.parse(text) : text;
}
