// The schema of a hardware file: one kind of machine. Figures are numbers in bytes, bytes per
// second, operations per second and seconds, or text with a unit (src/ports/quantities.ts).

import { z } from "zod";
import { constantsSchema, type Quantity, quantityExpected, quantityIn } from "../../../internal.ts";
import { taskCostsSchema } from "../tasks/task-costs.ts";

/** Plausible ranges: a number outside has a wrong unit, such as `200` where 200 Gb/s are meant. */
const plausible: Readonly<Record<Quantity, readonly [least: number, most: number]>> = {
  bytes: [1e6, 1e18],
  "bytes per second": [1e3, 1e17],
  "operations per second": [1e6, 1e21],
  seconds: [1e-12, 1],
};

/** A figure of this kind, as a number or with a unit. */
function quantity(kind: Quantity) {
  const expected = quantityExpected(kind);
  const [least, most] = plausible[kind];
  const range = [least, most].map((bound) => bound.toExponential().replace("+", "")).join(" and ");
  const unlikely = `between ${range}, as numbers without a unit count ${kind}`;
  const schema = z.union([z.number(), z.string()], { error: expected });
  return schema.transform((given, context) => {
    const value = typeof given === "string" ? quantityIn(given, kind) : given;
    if (value !== undefined && value >= least && value <= most) return value;
    const message = value !== undefined && value > 0 ? unlikely : expected;
    context.addIssue({ code: "custom", message, input: given });
    return z.NEVER;
  });
}

const share = z.number().gt(0).max(1);
const positive = z.number().positive();

/** A memory that holds rows. */
const memoryLevel = z.strictObject({
  bytes: quantity("bytes"),
  bandwidth: quantity("bytes per second"),
});

/** A link: seconds of a message without bytes, and bytes per second each way. */
const link = z.strictObject({
  latency: quantity("seconds"),
  bandwidth: quantity("bytes per second"),
  /** Share of the bandwidth that an all-to-all, and an all-reduce, reach. */
  allToAllShare: share.default(1),
  allReduceShare: share.default(1),
});

export type Link = z.output<typeof link>;

const scaleUp = link.extend({
  /** Whether this link is `device.hostLink`, so that devices exchange through the host's memory. */
  isHostLink: z.boolean().default(false),
});

/** The link of devices that share memory: their tasks copy the bytes, so it adds no time. */
const sharedMemory: z.output<typeof scaleUp> = {
  ...{ latency: 0, bandwidth: Number.POSITIVE_INFINITY, allToAllShare: 1, allReduceShare: 1 },
  isHostLink: false,
};

/** Formats of products. `tensorFloat32`: float32 with a short mantissa, on tensor cores. */
export const precisions = ["float32", "tensorFloat32", "bfloat16"] as const;

const host = z.strictObject({
  devices: z.int().min(1).max(64),
  /** Memory that the host's devices share, with its bandwidth. */
  memory: memoryLevel,
  disk: memoryLevel.optional(),
  /** Cores that devices, readers and bridges share; left out: they do not compete for cores. */
  cores: z.int().min(1).optional(),
  /** Bytes per second at which samples can arrive. */
  ingestion: quantity("bytes per second"),
  /** Watts of the whole host, with its devices. */
  watts: positive.max(1e6).optional(),
  pricePerHour: positive.max(1e6).optional(),
  /** Mean hours between failures of a host. */
  mtbfHours: positive.optional(),
});

const device = z.strictObject({
  memory: memoryLevel.extend({
    /** Bytes per second that lookups of rows reach, at most `bandwidth`. */
    lookups: quantity("bytes per second"),
    /** Whether this memory is part of the host's memory: true if devices are CPU cores. */
    isShared: z.boolean().default(false),
  }),
  /** Peak operations per second, by the format of products. */
  flops: z.partialRecord(z.enum(precisions), quantity("operations per second")),
  /** Share of the peak that a product of many rows reaches (gemmShareOf). */
  gemmShare: share,
  /** Seconds to sort an id for the update of its row. */
  idSort: z.union([z.literal(0), quantity("seconds")]),
  /** Bytes per second between the host's memory and a device. */
  hostLink: quantity("bytes per second"),
});

/** The schema of a hardware file. */
export const hardwareSchema = z
  .strictObject({
    name: z.string().min(1).max(64),
    /** Where the figures come from. */
    source: z.string().min(1),
    /** Figures that were fitted, and the data they were fitted to, which cannot validate them. */
    fitted: z.array(z.string()).default([]),
    host,
    device,
    /** Link between devices of a host; left out: they share memory. */
    scaleUp: scaleUp.default(sharedMemory),
    /** Link between hosts: one for each device, or one that the devices of a host share. */
    scaleOut: link.extend({
      isShared: z.boolean(),
      /** Bytes per second, sent and received, that one core moves; left out: no core is needed. */
      coreBandwidth: quantity("bytes per second").optional(),
    }),
    /** For a measured machine: the planner's constants, with the memory of all devices. */
    constants: constantsSchema.optional(),
    /** For a measured machine: the costs of tasks, by number of devices. */
    tasks: z.array(taskCostsSchema).min(1).optional(),
  })
  .superRefine(({ device: { memory, flops, hostLink }, ...all }, context) => {
    const refuse = (path: string[], message: string, input: unknown) =>
      context.addIssue({ code: "custom", path, message, input });
    const { lookups, bandwidth } = memory;
    if (lookups > bandwidth) {
      const message = `at most the memory's \`bandwidth\`, ${bandwidth} bytes per second`;
      refuse(["device", "memory", "lookups"], message, lookups);
    }
    if (flops.float32 === undefined) {
      refuse(["device", "flops", "float32"], quantityExpected("operations per second"), undefined);
    }
    const { isHostLink, bandwidth: up } = all.scaleUp;
    if (isHostLink && up !== hostLink) {
      const message = `\`device.hostLink\`, ${hostLink} bytes per second, as \`isHostLink\` says`;
      refuse(["scaleUp", "bandwidth"], message, up);
    }
    const isShared = up === sharedMemory.bandwidth;
    if (isShared && all.host.devices > 1 && all.constants === undefined) {
      const message =
        "a link, as `host.devices` is not 1 and no `constants` count copies in memory";
      refuse(["scaleUp"], message, undefined);
    }
  });

/** A kind of machine. */
export interface Hardware extends z.output<typeof hardwareSchema> {
  /** The kind of the hosts of servers (server-hosts.ts). @default the same */
  readonly servers?: Hardware | undefined;
}

/** Whether the devices of a host share memory, so that their tasks copy what they exchange. */
export function sharesMemory({ scaleUp }: Hardware): boolean {
  return scaleUp.bandwidth === sharedMemory.bandwidth;
}

/** The hosts of a cluster, all of one kind, and the devices of each. */
export interface ClusterDevices {
  readonly hosts: number;
  readonly perHost: number;
}
