// Options of a model server, for `serve` and its configuration file.

import { z } from "zod";
import {
  checkAll,
  checkOptions,
  credentialOptions,
  expected,
  isLoopback,
} from "../../../../internal.ts";

/** A name that is valid in an HTTP path and in a token of a NATS subject. */
const modelName = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;

const modelOptions = z.strictObject({
  /** Checkpoint directory of a run, or as written by `Model.save`. */
  path: z.string().min(1),
  /** The checkpoint: its manifest's hash, `best` or `last`. @default as `loadModel` */
  manifest: z.string().min(1).optional(),
  /** Whether new checkpoints and deltas in the directory are loaded automatically. */
  watch: z.boolean().default(true),
  /** Number of versions that stay loaded, including the newest. */
  keep: z.int().min(1).max(16).default(2),
  /**
   * Memory for the rows of each loaded version: larger tables are stored on disk. @default no limit
   */
  memoryBytes: z.int().min(1).optional(),
  /** Directory for tables on disk. @default the system's temporary directory */
  tierDirectory: z.string().min(1).optional(),
  /**
   * Whether probabilities are calibrated with the calibration stored for each version; `required`:
   * a version without a calibration is not served.
   */
  calibration: z.enum(["stored", "required", "none"]).default("stored"),
  /** As in `loadModel`: with an arithmetic other than training's, the last bits may differ. */
  arithmetic: z.enum(["same", "auto", "native", "reference"]).default("same"),
  /** Sends a share of this model's requests to another model. */
  split: z
    .strictObject({
      model: z.string(),
      percent: z.number().min(0).max(100),
      /** Column of the first record with the key of the split. @default the header `osiris-key` */
      key: z.string().min(1).optional(),
    })
    .optional(),
  /** A model that scores the same requests for comparison; its scores are not returned. */
  shadow: z.string().optional(),
});

const natsOptions = z.strictObject({
  /** Address of the broker: `nats://127.0.0.1:4222`. */
  url: z.string().min(1),
  ...credentialOptions,
});

/** Shortest token: a shorter token could be guessed. */
const tokenCharactersMin = 16;

const serveSchema = z.strictObject({
  /** Models by name. */
  models: z.record(z.string(), modelOptions),
  /** Address to listen on. */
  host: z.string().min(1).default("127.0.0.1"),
  /** Port to listen on; 0: any free port. */
  port: z.int().min(0).max(65_535).default(8080),
  /** Accepted bearer tokens; empty: no token is required. */
  tokens: z.array(z.string().min(tokenCharactersMin)).default([]),
  /** Whether other machines are answered without a token. */
  insecure: z.boolean().default(false),
  /** PEM files: the server speaks HTTPS. */
  tls: z.strictObject({ cert: z.string().min(1), key: z.string().min(1) }).optional(),
  /** Most samples of a batch of several requests. */
  batch: z.int().min(1).max(65_536).default(256),
  /** Longest time for scoring a batch: larger batches are split. */
  latencyBudgetMs: z.number().gt(0).max(60_000).default(5),
  /** Most samples that may wait for one model; `queueBytes` limits their bytes. */
  queueSamples: z.int().min(1).default(16_384),
  queueBytes: z
    .int()
    .min(1024)
    .default(64 * 1024 * 1024),
  /** Deadline of a request; a request may set a shorter one. */
  deadlineMs: z.number().gt(0).max(600_000).default(1000),
  /** Largest request, in bytes. */
  requestBytes: z
    .int()
    .min(1024)
    .default(16 * 1024 * 1024),
  requestSamples: z.int().min(1).default(16_384),
  connections: z.int().min(1).default(1024),
  /** Time limit for receiving a whole request. */
  requestMs: z.int().min(100).default(10_000),
  /** How often directories are polled. */
  watchMs: z.int().min(10).default(1000),
  /** Most bytes of incomplete requests, over all connections. */
  readingBytes: z
    .int()
    .min(1024)
    .default(256 * 1024 * 1024),
  /**
   * How long a server that shuts down still accepts requests while `ready` returns 503, so that
   * callers can move away; less if no connection is open.
   */
  leaveMs: z.int().min(0).max(600_000).default(1000),
  /** Time limit for answering accepted requests at shutdown. */
  drainMs: z.int().min(0).default(10_000),
  /** Longest time of the engine for a batch: beyond, the engine counts as hung and is reloaded. */
  engineMs: z.int().min(100).default(30_000),
  /** A NATS broker over which requests are accepted too. */
  nats: natsOptions.optional(),
});

/** The options as a program or a file gives them. */
export type ServerOptions = z.input<typeof serveSchema>;
/** The options, complete with defaults. */
export type ServerSpec = z.output<typeof serveSchema>;
export type ServedModelSpec = z.output<typeof modelOptions>;

/** JSON Schema of a configuration file. */
export function serverJsonSchema(): unknown {
  return z.toJSONSchema(serveSchema, { io: "input" });
}

/** Validates the options and fills in defaults. @throws InvalidOptionError */
export function resolveServer(given: ServerOptions): ServerSpec {
  const spec = checkOptions(serveSchema, given);
  const { models, host, tokens, insecure } = spec;
  const names = Object.keys(models);
  checkAll([
    () => {
      if (names.length === 0) throw expected("models", "an object with >= 1 model", models);
    },
    () => {
      if (isLoopback(host) || tokens.length > 0 || insecure) return;
      const wanted = "an address of this machine alone, such as 127.0.0.1, while there is no token";
      throw expected("host", `${wanted}; give \`tokens\`, or set \`insecure: true\``, host);
    },
    ...names.map((name) => () => checkModel(name, spec)),
  ]);
  return spec;
}

function checkModel(name: string, { models }: ServerSpec): void {
  if (!modelName.test(name)) {
    throw expected("models", "named by letters, digits, - and _, at most 64", name);
  }
  const { split, shadow } = models[name] ?? {};
  const named = { "split.model": split?.model, shadow };
  for (const [option, other] of Object.entries(named)) {
    if (other === undefined) continue;
    const at = `models.${name}.${option}`;
    const target = Object.hasOwn(models, other) ? models[other] : undefined;
    if (target === undefined || other === name) throw expected(at, "another model here", other);
    if (option === "split.model" && target.split !== undefined) {
      throw expected(at, "a model that splits its own requests no further", other);
    }
  }
}
