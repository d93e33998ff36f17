// Drain notices: the announcement that this machine will soon be taken away, as spot machines are.
// The notice is a file that appears, or a URL that responds with status 200. A process that gets
// the notice leaves its cluster.

import { z } from "zod";
import { expected } from "./check-options.ts";
import type { Clock } from "./clock.ts";
import type { Disk } from "./disk.ts";

/**
 * The reason why a process must leave, and the seconds until its machine is taken away, if known.
 */
export interface DrainNotice {
  readonly reason: string;
  readonly seconds: number | undefined;
}

export const drainOptions = {
  /** A file that exists once this machine is going to be taken away. @default none */
  drainFile: z.string().min(1).optional(),
  /**
   * A URL that responds with 200 once this machine is going to be taken away; or `aws`, `gcp`: the
   * notice of a spot machine of these clouds. @default none
   */
  drainUrl: z.string().min(1).optional(),
};

export interface DrainPorts {
  readonly clock: Clock;
  readonly disk: Pick<Disk, "exists">;
  readonly fetch: typeof fetch;
  /** Environment variables, which may name another address of the instance metadata. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Called once for each series of failures to read the URL. */
  warn(message: string): void;
}

/** Intervals of reading the file and the URL, and the longest wait for a response of the URL. */
const fileMs = 1000;
const urlMs = 5000;
const answerMs = 2000;

/** Requests the notice of a URL; undefined: there is no notice yet. */
type Look = (get: typeof fetch) => Promise<DrainNotice | undefined>;

/**
 * Calls `onNotice` once, when a source has the notice. Returns a function that stops watching.
 * @throws InvalidOptionError
 */
export function watchDrain(
  { drainFile, drainUrl }: { readonly [Name in keyof typeof drainOptions]?: string | undefined },
  ports: DrainPorts,
  onNotice: (notice: DrainNotice) => void,
): () => void {
  const { clock, disk, warn } = ports;
  const cancels = new Map<string, () => void>();
  let isOver = false;
  const stop = () => {
    isOver = true;
    for (const cancel of cancels.values()) cancel();
  };
  const every = (ms: number, name: string, look: () => Promise<DrainNotice | undefined>) => {
    const again = async () => {
      const notice = await look();
      if (isOver) return;
      if (notice === undefined)
        cancels.set(
          name,
          clock.after(ms, () => void again()),
        );
      else {
        stop();
        onNotice(notice);
      }
    };
    void again();
  };
  if (drainUrl !== undefined) {
    const look = lookOf(drainUrl, ports.env);
    let isWarned = false;
    every(urlMs, "url", async () => {
      try {
        const notice = await look((url, init) =>
          ports.fetch(url, { ...init, redirect: "manual", signal: AbortSignal.timeout(answerMs) }),
        );
        isWarned = false;
        return notice;
      } catch (error) {
        if (!isWarned) warn(`${drainUrl} cannot be read for a drain notice: ${error}`);
        isWarned = true;
        return undefined;
      }
    });
  }
  if (drainFile !== undefined) {
    const reason = `the file ${drainFile} is there`;
    every(fileMs, "file", async () =>
      disk.exists(drainFile) ? { reason, seconds: undefined } : undefined,
    );
  }
  return stop;
}

function lookOf(url: string, env: DrainPorts["env"]): Look {
  if (url === "aws") return lookAtAws(env.AWS_EC2_METADATA_SERVICE_ENDPOINT ?? awsMetadata);
  if (url === "gcp") return lookAtGcp(env.GCE_METADATA_HOST ?? gcpMetadata);
  if (/^https?:\/\//.test(url) && URL.canParse(url)) {
    return async (get) => {
      const { status, body } = await get(url);
      void body?.cancel().catch(() => {}); // The body may be endless.
      if (status >= 500) throw new Error(`it answered ${status}`);
      return status === 200 ? { reason: `${url} answered 200`, seconds: undefined } : undefined;
    };
  }
  throw expected("drainUrl", "an address with http:// or https://, `aws` or `gcp`", url);
}

const awsMetadata = "http://169.254.169.254";
const gcpMetadata = "metadata.google.internal";

/** The interruption notice of an EC2 spot instance, two minutes before, by IMDSv2. */
function lookAtAws(endpoint: string): Look {
  const base = `${endpoint.replace(/\/$/, "")}/latest`;
  return async (get) => {
    const asked = { method: "PUT", headers: { "x-aws-ec2-metadata-token-ttl-seconds": "60" } };
    const token = await answered(await get(`${base}/api/token`, asked));
    if (token === undefined) throw new Error("it gives no token (IMDSv2)");
    const headers = { "x-aws-ec2-metadata-token": token.text };
    const got = await get(`${base}/meta-data/spot/instance-action`, { headers });
    const action = await answered(got);
    if (action === undefined) return undefined;
    const { action: what, time } = awsAction.parse(JSON.parse(action.text));
    return { reason: `AWS will ${what} this instance at ${time}`, seconds: secondsTo(time, got) };
  };
}

const awsAction = z.object({ action: z.string(), time: z.string() });

/** The preemption notice of a spot machine of Google Cloud, 30 seconds before. */
function lookAtGcp(host: string): Look {
  const url = `http://${host}/computeMetadata/v1/instance/preempted`;
  return async (get) => {
    const headers = { "metadata-flavor": "Google" };
    const preempted = await answered(await get(url, { headers }));
    if (preempted === undefined) throw new Error("it has no such value");
    if (preempted.text.trim() !== "TRUE") return undefined;
    return { reason: "Google Cloud preempts this instance", seconds: undefined };
  };
}

/** The body of a 200; undefined: there is no notice. @throws Error where the source is broken */
async function answered(response: Response): Promise<{ readonly text: string } | undefined> {
  const text = await response.text();
  if (response.status >= 500) throw new Error(`it answered ${response.status}`);
  return response.status === 200 ? { text } : undefined;
}

/** Seconds to a time by the source's own clock, as this machine's may be wrong. */
function secondsTo(time: string, { headers }: Response): number | undefined {
  const seconds = (Date.parse(time) - Date.parse(headers.get("date") ?? "")) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined;
}
