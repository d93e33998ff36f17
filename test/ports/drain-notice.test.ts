// Drain notices of files, of any URL, and of the instance metadata of two clouds: a fake of each
// follows the providers' documents (tokens, headers, bodies).

import test from "ava";
import { SimulatedClock } from "../../src/ports/clock.ts";
import { type DrainNotice, type DrainPorts, watchDrain } from "../../src/ports/drain-notice.ts";

type Sources = Parameters<typeof watchDrain>[0];
type Answer = (url: string, init: RequestInit) => Response;

/** Watches the sources in simulated time. `env` points the clouds to `http://metadata`. */
function watch(sources: Sources, answer: Answer = () => new Response("", { status: 404 })) {
  const clock = new SimulatedClock();
  const files = new Set<string>();
  const [notices, warnings]: [DrainNotice[], string[]] = [[], []];
  const ports: DrainPorts = {
    clock,
    disk: { exists: (path) => files.has(path) },
    fetch: async (url, init = {}) => answer(String(url), init),
    env: { AWS_EC2_METADATA_SERVICE_ENDPOINT: "http://metadata/", GCE_METADATA_HOST: "metadata" },
    warn: (message) => warnings.push(message),
  };
  const stop = watchDrain(sources, ports, (notice) => notices.push(notice));
  const pass = async (seconds: number) => {
    for (let second = 0; second < seconds; second++) {
      for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
      clock.advance(1000);
    }
    for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
  };
  return { files, notices, warnings, stop, pass };
}

test("a file that appears is a notice, within about a second and once", async (t) => {
  const { files, notices, pass } = watch({ drainFile: "/run/drain" });
  await pass(5);
  t.deepEqual(notices, []);
  files.add("/run/drain");
  await pass(1);
  const reason = "the file /run/drain is there";
  t.deepEqual(notices, [{ reason, seconds: undefined }]);
  await pass(10);
  t.is(notices.length, 1);
});

test("a URL that turns 200 is a notice; of two sources the first counts", async (t) => {
  let status = 404;
  const drainUrl = "http://node:8080/drain";
  const sources = { drainUrl, drainFile: "/run/drain" };
  const { files, notices, warnings, pass } = watch(sources, () => new Response("", { status }));
  await pass(12);
  status = 200;
  await pass(5);
  files.add("/run/drain");
  await pass(5);
  t.deepEqual(notices, [{ reason: `${drainUrl} answered 200`, seconds: undefined }]);
  t.deepEqual(warnings, []);
});

test("a redirection is no notice, and a body that never ends delays none", async (t) => {
  const drainUrl = "http://node:8080/drain";
  let isGoing = false;
  const { notices, warnings, pass } = watch({ drainUrl }, (_, { redirect }) => {
    const at = isGoing || redirect !== "manual" ? 200 : 302; // Followed, it leads to a login page.
    return new Response(new ReadableStream(), { status: at });
  });
  await pass(12);
  t.deepEqual(notices, []);
  isGoing = true;
  await pass(5);
  t.deepEqual(notices, [{ reason: `${drainUrl} answered 200`, seconds: undefined }]);
  t.deepEqual(warnings, []);
});

test("a broken source is no notice, and is warned of once for each series of failures", async (t) => {
  let answer: Answer = () => {
    throw new TypeError("fetch failed");
  };
  const { notices, warnings, pass } = watch({ drainUrl: "http://node/" }, (...of) => answer(...of));
  await pass(20);
  t.is(warnings.length, 1);
  t.regex(warnings[0] ?? "", /^http:\/\/node\/ cannot be read .*fetch failed/);
  answer = () => new Response("", { status: 404 });
  await pass(10);
  answer = () => new Response("", { status: 503 });
  await pass(20);
  t.is(warnings.length, 2);
  t.deepEqual(notices, []);
});

/** Instance metadata of EC2 by IMDSv2: nothing without a fresh token. */
function aws(action: () => Response): Answer {
  return (url, { method = "GET", headers }) => {
    const sent = new Headers(headers);
    if (url === "http://metadata/latest/api/token") {
      const ttl = Number(sent.get("x-aws-ec2-metadata-token-ttl-seconds"));
      return method === "PUT" && ttl > 0
        ? new Response("secret")
        : new Response("", { status: 405 });
    }
    if (sent.get("x-aws-ec2-metadata-token") !== "secret") return new Response("", { status: 401 });
    const isAction = url === "http://metadata/latest/meta-data/spot/instance-action";
    return isAction ? action() : new Response("", { status: 404 });
  };
}

test("aws: the notice has the time that EC2 names, by the clock of EC2", async (t) => {
  let response = () => new Response("Not Found", { status: 404 });
  const { notices, warnings, pass } = watch(
    { drainUrl: "aws" },
    aws(() => response()),
  );
  await pass(11);
  t.deepEqual(notices, []);
  const body = JSON.stringify({ action: "terminate", time: "2017-09-18T08:22:00Z" });
  const headers = { date: "Mon, 18 Sep 2017 08:20:03 GMT" };
  response = () => new Response(body, { headers });
  await pass(5);
  const reason = "AWS will terminate this instance at 2017-09-18T08:22:00Z";
  t.deepEqual(notices, [{ reason, seconds: 117 }]);
  t.deepEqual(warnings, []);
});

test("gcp: only the body tells whether the machine is preempted", async (t) => {
  let body = "FALSE\n";
  const { notices, pass } = watch({ drainUrl: "gcp" }, (url, { headers }) => {
    const isKnown = url === "http://metadata/computeMetadata/v1/instance/preempted";
    const isAllowed = new Headers(headers).get("metadata-flavor") === "Google";
    return isKnown && isAllowed ? new Response(body) : new Response("", { status: 403 });
  });
  await pass(11);
  t.deepEqual(notices, []);
  body = "TRUE\n";
  await pass(5);
  t.deepEqual(notices, [{ reason: "Google Cloud preempts this instance", seconds: undefined }]);
});

test("a watch that was stopped gives no notice", async (t) => {
  const { files, notices, stop, pass } = watch({ drainFile: "/run/drain" });
  stop();
  files.add("/run/drain");
  await pass(5);
  t.deepEqual(notices, []);
});

test("another word than a URL, aws or gcp is refused", (t) => {
  for (const drainUrl of ["azure", "ftp://node/", "http://"]) {
    const refused = t.throws(() => watch({ drainUrl }), { name: "InvalidOptionError" });
    t.regex(refused.message, /^Expected `drainUrl` to be an address with http:/);
  }
});
