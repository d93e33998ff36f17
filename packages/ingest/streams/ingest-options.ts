// Options of an ingestion: its streams, the join, and the layout of its files.

import { z } from "zod";
import { checkAll, checkOptions, expected, type Written } from "../../../internal.ts";
import { codecs } from "../warehouse/codecs.ts";
import { type ColumnType, columnTypes } from "../warehouse/inferred-type.ts";

const name = z.string().min(1);
const dayMs = 24 * 60 * 60 * 1000;

const schema = z.strictObject({
  /** Streams of JetStream. */
  features: name,
  events: name,
  /** The directory of the table. */
  out: name,
  /** Longest time from a request to its events, by the times in the messages. @default 5 minutes */
  windowMs: z
    .int()
    .min(1)
    .max(7 * dayMs)
    .default(300_000),
  /**
   * How far a message's time may lie behind the latest time of its stream; later messages are left
   * out. @default 1 minute
   */
  latenessMs: z
    .int()
    .min(0)
    .max(7 * dayMs)
    .default(60_000),
  /** Members of messages with the request id and with the time. */
  id: name.default("request"),
  time: name.default("time"),
  /** Unit of numeric times, which count from 1970. */
  timeUnit: z.enum(["s", "ms", "us"]).default("ms"),
  /** Member of an event with the label. A row without an event gets the label 0. */
  label: name.default("label"),
  /** Further numeric members of events to store in rows; missing in rows without an event. */
  values: z.array(name).max(100).default([]),
  /** How the values of several events of a request are combined. */
  rule: z.enum(["max", "sum", "first", "last"]).default("max"),
  /** Types of columns; other columns' types are inferred from the first rows. */
  columns: z
    .record(name, z.enum(Object.keys(columnTypes) as [ColumnType, ...ColumnType[]]))
    .default({}),
  /** Partition directories of rows, by the times of their requests in UTC. */
  partition: z.enum(["date", "hour", "none"]).default("date"),
  /** Most rows of a row group, and of a file. */
  groupRows: z
    .int()
    .min(1)
    .max(2 ** 24)
    .default(16_384),
  fileRows: z
    .int()
    .min(1)
    .max(2 ** 31)
    .default(262_144),
  /** Time span of a file; it ends once no more messages of the span can come. @default 1 hour */
  fileSpanMs: z
    .int()
    .min(1000)
    .max(7 * dayMs)
    .default(3_600_000),
  codec: z.enum(codecs).default("snappy"),
  /** Most bytes of requests and events held in the window. @default 512 MiB */
  stateBytes: z
    .int()
    .min(1024)
    .default(2 ** 29),
  /** Most bad messages that are kept with their reasons; all are counted. */
  quarantineMax: z.int().min(0).max(10_000).default(100),
  /** Largest share of a file's messages that may be bad. */
  rejectedMax: z.number().min(0).max(1).default(0.01),
});

/** How streams are joined into a table. */
export type IngestJoinOptions = Written<z.input<typeof schema>>;
export type IngestSpec = z.output<typeof schema>;

/** Completes and checks the options. @throws InvalidOptionError */
export function resolveIngest(options: IngestJoinOptions): IngestSpec {
  const spec = checkOptions(schema, options);
  const names = [spec.id, spec.time, spec.label, "sequence", ...spec.values];
  checkAll([
    () => {
      if (spec.features !== spec.events) return;
      throw expected("events", "another stream than `features`", spec.events);
    },
    () => {
      const twice = names.find((one, i) => names.indexOf(one) !== i);
      if (twice === undefined) return;
      const what = "the names of different columns (a row has a column `sequence`, too)";
      throw expected("id, time, label, values", what, twice);
    },
    () => {
      const taken = Object.keys(spec.columns).find((one) => names.includes(one));
      if (taken === undefined) return;
      throw expected("columns", "types of features, and no others", taken);
    },
  ]);
  return spec;
}

/**
 * The options that determine rows and files. They are stored with a directory and cannot change
 * afterwards.
 */
export function settingsOf(spec: IngestSpec) {
  const {
    out: _,
    stateBytes: _bytes,
    quarantineMax: _kept,
    rejectedMax: _share,
    ...deciding
  } = spec;
  return deciding;
}
