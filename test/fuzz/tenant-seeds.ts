// The actions of a hostile tenant before the fuzzer mutates them: jobs with options of every kind,
// jobs whose paths lead out of its directories, requests about others' runs and subjects, and HTTP
// calls.

/**
 * An action of the tenant: a request to the job service (`ask`), a message on any `subject`, a
 * subscription (`listen`), or an HTTP call (`call`). After mutation any member may have any value.
 */
export type Act = Readonly<
  Partial<
    Record<
      | "ask"
      | "subject"
      | "body"
      | "as"
      | "reply"
      | "headers"
      | "frame"
      | "listen"
      | "call"
      | "path"
      | "of"
      | "token",
      unknown
    >
  >
>;

/** Placeholders in an act for the tenant's next run, and for a run of the other tenant. */
export const [ownRun, theirRun] = ["own-run", "their-run"] as const;

const tables = ["item", "tags"].map((name) => ({ name, rows: 60, dim: 4 }));
const dlrm = { kind: "dlrm", dense: 1, tables, bottom: [4], top: [4, 1] };
const columns = {
  label: "label",
  dense: ["price"],
  categorical: ["item", { column: "tags", separator: "|" }],
  batchSize: 10,
};
const csv = { kind: "csv", paths: ["clicks.csv"], ...columns };
const generated = { kind: "synthetic", samples: 100, dense: 1, batchSize: 10 };

const plain = { model: dlrm, data: csv, checkpoint: { directory: "plain" }, devices: 1 };

const words = { op: "mapId", input: "item", output: "word", vocabulary: "words.txt" };

const jobs: readonly object[] = [
  plain,
  {
    ...plain,
    name: "many-options",
    data: { ...csv, epochs: 2, rejectedMax: 0.5, cache: "cache", delimiter: ",", shuffle: true },
    optimizer: {
      dense: { kind: "adam", learningRate: 0.01, ema: { decay: 0.9 }, clip: { norm: 1 } },
      sparse: { kind: "rowWiseAdagrad", learningRate: 0.1, ema: { decay: 0.9 } },
    },
    evaluation: { fraction: 0.2, everySteps: 3, earlyStopping: { metric: "auc", patience: 2 } },
    checkpoint: { directory: "options", everySteps: 2, keep: 2 },
    seed: 5,
    slices: 4,
    priority: -3,
    sharding: "as-written",
    stepDeadlineMs: 3000,
    restarts: { restartsMax: 2, windowMs: 1000 },
  },
  {
    ...plain,
    data: { ...csv, transforms: [words], categorical: ["word", "tags"] },
    model: { ...dlrm, tables: ["word", "tags"].map((name) => ({ name, rows: 60, dim: 4 })) },
  },
  {
    ...plain,
    data: { ...csv, kind: "jsonl", paths: ["clicks.jsonl"] },
    evaluation: { data: { paths: ["clicks.jsonl"] }, test: { data: { paths: ["*.jsonl"] } } },
  },
  {
    ...plain,
    model: {
      ...dlrm,
      tables: [
        { name: "item", rows: 64, dim: 4, tier: "cached", keep: "spill" },
        { name: "tags", rows: 64, dim: 8, idBits: 64, dynamic: {} },
      ],
    },
    data: generated,
    tiers: { hbmBytes: 65_536, ddrBytes: 65_536, ssd: "file", directory: "tiers" },
    checkpoint: { directory: "tiered", everySteps: 3 },
  },
  { ...plain, data: { ...generated, samples: 4_000_000_000, zipf: 1.2 } },
  { ...plain, model: { kind: "wideAndDeep", tables, dense: 1, top: [4, 1] } },
  { ...plain, model: { kind: "custom", path: "model.mjs", dense: 1, tables, options: {} } },
];

/** Paths that lead out of the tenant's directories, or to something that is no regular file. */
const ways = [
  ...["../honest/*.csv", "../honest", "beside/*.csv", "beside", "system/passwd", "/etc/passwd"],
  ...["zero.txt", "pipe.csv", "/dev/zero", "/proc/self/environ", "../../state", "**", "."],
  ...["***************z", "*a*a*a*a*a*a*a*a*b", "http://127.0.0.1:1/x.csv", "s3://a/b.csv", ""],
];

const ask = (method: string, body: unknown, as = "json"): Act => ({ ask: method, body, as });

const submissions: readonly (readonly Act[])[] = jobs.map((job, i) => [
  ask("submit", i === 0 ? { job, key: "a" } : { job }, i % 2 === 0 ? "json" : "msgpack"),
]);

/** Jobs with each path in each option that takes a path. */
const escapes: readonly (readonly Act[])[] = ways.map((path) =>
  [
    { data: { ...csv, paths: [path] } },
    { data: { ...csv, cache: path } },
    { checkpoint: { directory: path } },
    { warmStart: { from: path } },
    { data: { ...csv, transforms: [{ ...words, vocabulary: path }] } },
    { evaluation: { data: { paths: [path] } } },
    { tiers: { directory: path } },
    { model: { kind: "custom", path, tables, dense: 1 } },
  ].map((options, i) =>
    ask("submit", { job: { ...plain, checkpoint: { directory: `way-${i}` }, ...options } }),
  ),
);

const controls: readonly Act[] = [
  ask("submit", { job: { ...plain, data: { ...csv, epochs: 500 } }, key: "long" }),
  ...["status", "logs", "events", "pause", "resume", "checkpoint", "cancel"].map((method) =>
    ask(method, { run: ownRun }),
  ),
  ask("logs", { run: ownRun, after: "5", most: 500 }, "msgpack"),
  ask("events", { run: ownRun, since: 0, most: 500 }),
  ask("list", { after: ownRun, most: 1000 }),
  ask("scale", { run: ownRun, devices: 2 }),
  ask("move", { run: ownRun, shard: 0, device: 1 }),
  ask("freeze", { run: ownRun, shard: 0 }),
  ask("thaw", { run: ownRun, shard: 0 }),
  ask("flush", { run: ownRun, device: 0 }),
  ask("rate", { run: ownRun, samplesPerSecond: 1 }),
  ask("drain", { run: ownRun, reader: 0 }),
  ask("seek", { run: ownRun, reader: 0, step: 4 }),
  ask("schema", {}),
];

const actorFrame = [
  1,
  "device.run",
  theirRun,
  1,
  "coordinator:0",
  { command: 3, toStep: 9, lossSum: 0.5, plateau: 1 },
];

const others: readonly Act[] = [
  ...["cancel", "pause", "status", "logs", "events"].flatMap((method) => [
    { subject: `osiris.c1.jobs.honest.${method}`, body: { run: theirRun } },
    { subject: `osiris.c1.jobs.hostile.${method}`, body: { run: theirRun } },
    { subject: `osiris.c1.jobs.${method}`, body: { run: theirRun } },
  ]),
  { subject: "osiris.c1.jobs.hostile.list", headers: { "Nats-Request-Info": '{"acc":"honest"}' } },
  { subject: "osiris.c1.jobs.hostile.list", body: {}, reply: "osiris.c1.jobs.honest.cancel" },
  { subject: "osiris.c1.jobs.hostile.status", body: { run: ownRun }, reply: "$JS.API.INFO" },
  { subject: "osiris.c1.inspect.all", body: {} },
  { subject: `osiris.c1.${theirRun}.1.device.0.device-run`, body: actorFrame, as: "msgpack" },
  { subject: `osiris.c1.${theirRun}.1.coordinator.0.part-saved`, body: actorFrame, as: "msgpack" },
  { subject: "osiris.c1.cluster.0.hosts.0.host-joined", body: actorFrame, as: "msgpack" },
  { subject: `osiris.c1.runs.honest.${theirRun}.events`, body: { type: "run.failed" } },
  { subject: "$JS.API.STREAM.NAMES", body: {} },
  { subject: "$JS.API.DIRECT.GET.osiris-events-honest@c1", body: { seq: 1 } },
  { subject: "$JS.API.DIRECT.GET.osiris-events-hostile@c1", body: { seq: 1 } },
  { subject: "$JS.API.CONSUMER.CREATE.osiris-events-hostile@c1", body: { deliver_subject: "a" } },
  { subject: "$JS.API.CONSUMER.MSG.NEXT.osiris-events-hostile@c1.mallory", body: { batch: 100 } },
  { subject: `$KV.osiris-queue-c1.${theirRun}`, body: {} },
  { subject: "$SRV.PING", body: {} },
];

const listening: readonly Act[] = [
  ...[">", "*.>", "osiris.>", "osiris.c1.runs.honest.*.events", "osiris.c1.runs.*.*.events"],
  ...["osiris.c1.jobs.>", "_INBOX.>", "$JS.>", "$SYS.>", "osiris.c1.*.*.*.*.*", "a b"],
].map((listen) => ({ listen }));

const runPage = `/api/runs/${theirRun}`;
const pages = ["/", "/page.js", "/api/runs", runPage, `${runPage}/events`, "/api/stream"];
const calls: readonly Act[] = [
  ...[...pages, `/api/shards?run=${theirRun}`, "/api/tiers", "/api/actor?host=0&actor=device%3A0"],
  ...["//", "/%", "/api/runs/%2e%2e", "/../../x", "http://[", "/?token=x"],
].flatMap((path) => [
  { call: "GET", path },
  { call: "GET", path, token: true },
]);
const changes: readonly Act[] = ["cancel", "pause", "submit", "scale"].map((method) => ({
  call: "POST",
  path: `/api/jobs/${method}`,
  token: true,
  headers: { "x-osiris-page": "1", "content-type": "application/json" },
  body: method === "submit" ? { job: plain } : { run: theirRun },
}));
const figures: readonly Act[] = ["/metrics", "/", "//", "/healthz"].map((path) => ({
  ...{ call: "GET", path, of: "metrics", headers: { Host: "127.0.0.1" } },
}));

/**
 * Hostile frames, which are derived from the number `frame`, the only value that mutations change.
 */
const frames: readonly Act[] = ["submit", "list", "logs", "scale"].flatMap((method, i) =>
  [0, 1, 2].map((j) => ({ ask: method, frame: 10 * i + j, body: { run: ownRun, job: plain } })),
);

/** The acts of each unmutated case. */
export const tenantSeeds: readonly (readonly Act[])[] = [
  ...submissions,
  ...escapes,
  ...[controls, others, listening, calls, [...changes, ...figures], frames],
];
