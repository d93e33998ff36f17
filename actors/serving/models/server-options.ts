// Options of a server of models: what `serve` takes, and a configuration file has.

import { z } from "zod";
import { checkAll, checkOptions, expected } from "../../../src/ports/check-options.ts";
import { isLoopback } from "../../../src/wire/http/access.ts";
import { credentialOptions } from "../../../src/wire/transports/credentials.ts";

/** A name that stands in a path of HTTP and in a token of a NATS subject. */
const modelName = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;

const modelOptions = z.strictObject({
  /** Checkpoint directory, of a run or written by `Model.save`. */
  path: z.string().min(1),
  /** The checkpoint: its manifest's hash, `best` or `last`. @default as `loadModel` */
  manifest: z.string().min(1).optional(),
  /** Whether newer checkpoints and deltas in the directory are loaded as they come. */
  watch: z.boolean().default(true),
  /** Versions that stay loaded, the newest of them included. */
  keep: z.int().min(1).max(16).default(2),
  /** Memory for the rows of each loaded version: larger tables lie on disk. @default no limit */
  memoryBytes: z.int().min(1).optional(),
  /** Where they lie. @default the system's temporary directory */
  tierDirectory: z.string().min(1).optional(),
  /**
   * Whether probabilities are calibrated by what is stored with each version; `required`: a version
   * without a calibration is not served.
   */
  calibration: z.enum(["stored", "required", "none"]).default("stored"),
  /** As `loadModel`'s: with another arithmetic than training's, last bits may differ. */
  arithmetic: z.enum(["same", "auto", "native", "reference"]).default("same"),
  /** Sends a share of this model's requests to another one. */
  split: z
    .strictObject({
      model: z.string(),
      percent: z.number().min(0).max(100),
      /** Column of the first record whose value decides. @default the header `osiris-key` */
      key: z.string().min(1).optional(),
    })
    .optional(),
  /** A model that scores the same requests, to be compared; nobody gets its scores. */
  shadow: z.string().optional(),
});

const natsOptions = z.strictObject({
  /** Where the broker listens: `nats://127.0.0.1:4222`. */
  url: z.string().min(1),
  ...credentialOptions,
});

/** Shortest token: a shorter one is guessed. */
const tokenCharactersMin = 16;

const serveSchema = z.strictObject({
  /** Models by name. */
  models: z.record(z.string(), modelOptions),
  /** Address to listen on. */
  host: z.string().min(1).default("127.0.0.1"),
  /** 0: any. */
  port: z.int().min(0).max(65_535).default(8080),
  /** Tokens that requests may carry; none: everybody is answered. */
  tokens: z.array(z.string().min(tokenCharactersMin)).default([]),
  /** Whether others than this machine may be answered without a token. */
  insecure: z.boolean().default(false),
  /** PEM files: the server speaks HTTPS. */
  tls: z.strictObject({ cert: z.string().min(1), key: z.string().min(1) }).optional(),
  /** Most samples that are scored together. */
  batch: z.int().min(1).max(65_536).default(256),
  /** A batch is cut where scoring it would take longer. */
  latencyBudgetMs: z.number().gt(0).max(60_000).default(5),
  /** What may wait for one model. */
  queueSamples: z.int().min(1).default(16_384),
  queueBytes: z
    .int()
    .min(1024)
    .default(64 * 1024 * 1024),
  /** For how long a request waits at most; a request may ask for less. */
  deadlineMs: z.number().gt(0).max(600_000).default(1000),
  /** Largest request. */
  requestBytes: z
    .int()
    .min(1024)
    .default(16 * 1024 * 1024),
  requestSamples: z.int().min(1).default(16_384),
  connections: z.int().min(1).default(1024),
  /** In which a whole request must have come in. */
  requestMs: z.int().min(100).default(10_000),
  /** How often directories are looked at. */
  watchMs: z.int().min(10).default(1000),
  /** Bytes of requests that are coming in, of all connections together. */
  readingBytes: z
    .int()
    .min(1024)
    .default(256 * 1024 * 1024),
  /**
   * For how long, at the end, requests are still taken while `ready` says 503, so that callers can
   * look elsewhere; less where no connection is open.
   */
  leaveMs: z.int().min(0).max(600_000).default(1000),
  /** In which requests that were taken are answered at the end. */
  drainMs: z.int().min(0).default(10_000),
  /** Longest time of the engine for a batch: beyond, it hangs and is loaded anew. */
  engineMs: z.int().min(100).default(30_000),
  /** A broker over which requests come too. */
  nats: natsOptions.optional(),
});

/** As a program or a file gives it. */
export type ServerOptions = z.input<typeof serveSchema>;
/** Complete with defaults. */
export type ServerSpec = z.output<typeof serveSchema>;
export type ServedModelSpec = z.output<typeof modelOptions>;

/** JSON Schema of a configuration file. */
export function serverJsonSchema(): unknown {
  return z.toJSONSchema(serveSchema, { io: "input" });
}

/** The options, complete. @throws InvalidOptionError */
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
      const wanted = "an address of this machine alone, as 127.0.0.1, while there is no token";
      throw expected("host", `${wanted}; give \`tokens\`, or say \`insecure: true\``, host);
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
