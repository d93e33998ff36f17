// The HTTP connection to an S3-compatible store: signs requests, sends them with a deadline, and
// reads each response into the memory that the request provides.
//
// Invariants
//   H1. At most `requestsAtOnce` requests are open; others wait for their turn.
//   H2. A request ends within its deadline: with an answer, or with status 0 and the reason.

import { type ClientRequest, Agent as PlainAgent, request as plain } from "node:http";
import { Agent as SecureAgent, request as secure } from "node:https";
import { InputUnusableError } from "../errors/errors.ts";
import { chainOf } from "./credentials.ts";
import { type StoreEnvironment, siteOf } from "./environment.ts";
import type { Connection } from "./later-store.ts";
import { bytesMaxOf, noAnswer, type StoreAnswer, type StoreRequest } from "./requests.ts";
import { codeOf, expired, type StoreLimits } from "./rules.ts";
import { s3Parts, signedHeaders, urlOf } from "./s3-address.ts";

/** Most open requests: more would only share the same bandwidth. */
const requestsAtOnce = 32;
/** Assumed least bandwidth: a deadline is extended by the time that the bytes then take. */
const bytesPerMs = 1000;
/** Idle connections are closed after this time, before most stores close them. */
const idleMs = 4000;

/** Connects to the bucket of an address. */
export function connectTo(
  address: string,
  env: StoreEnvironment,
  { attemptMs }: Pick<StoreLimits, "attemptMs">,
): Connection {
  const { bucket } = s3Parts(address);
  const site = siteOf(env);
  const chain = chainOf(env);
  const isPlain = urlOf(site, bucket, "").protocol === "http:";
  const agentOptions = { keepAlive: true, maxSockets: requestsAtOnce, timeout: idleMs };
  const agent = isPlain ? new PlainAgent(agentOptions) : new SecureAgent(agentOptions);
  const begin = isPlain ? plain : secure;
  const waiting: (() => void)[] = [];
  let open = 0;
  let isClosed = false;

  const ask = async (request: StoreRequest, into?: Uint8Array): Promise<StoreAnswer> => {
    const url = urlOf(site, bucket, request.key);
    for (const [name, value] of Object.entries(request.query ?? {})) {
      url.searchParams.set(name, value);
    }
    const { method, headers = {}, body } = request;
    const credentials = await chain.current();
    const signed = await signedHeaders({ method, url, headers, body }, site, credentials);
    const bytes = Math.max(body?.length ?? 0, request.bytesMax ?? 0);
    const options = { method, agent, headers: { ...signed, "content-length": body?.length ?? 0 } };
    const deadlineMs = attemptMs + Math.ceil(bytes / bytesPerMs);
    const answer = await exchange(begin(url, options), request, { into, deadlineMs });
    if (credentials !== undefined && expired.test(codeOf(answer))) chain.reject(credentials);
    return answer;
  };

  return {
    async ask(request, into) {
      if (open >= requestsAtOnce)
        await new Promise<void>((turn) => waiting.push(turn)); // H1
      else open++;
      try {
        return isClosed ? noAnswer("the store was closed") : await ask(request, into);
      } catch (error) {
        if (error instanceof InputUnusableError) throw error;
        return noAnswer(error instanceof Error ? error.message : String(error));
      } finally {
        const next = waiting.shift();
        if (next === undefined) open--;
        else next();
      }
    },
    close() {
      isClosed = true;
      agent.destroy();
    },
  };
}

function exchange(
  sent: ClientRequest,
  request: StoreRequest,
  { into, deadlineMs }: { into: Uint8Array | undefined; deadlineMs: number },
): Promise<StoreAnswer> {
  return new Promise((resolve) => {
    const end = (answer: StoreAnswer) => {
      clearTimeout(timer);
      resolve(answer);
      sent.destroy();
    };
    const lose = (reason: string) => end(noAnswer(reason));
    const timer = setTimeout(() => lose(`no answer within ${deadlineMs} ms`), deadlineMs); // H2
    sent.on("error", (error) => lose(`the connection failed: ${error.message}`));
    sent.on("response", (response) => {
      const { statusCode: status = 0 } = response;
      const headers: Record<string, string> = {};
      for (const [name, value] of Object.entries(response.headers)) headers[name] = String(value);
      const announced = Number(headers["content-length"] ?? 0);
      const most = bytesMaxOf(request, status);
      const isObject = into !== undefined && status < 300;
      let memory = isObject ? into : new Uint8Array(Math.min(announced, most));
      let count = 0;
      response.on("data", (piece: Buffer) => {
        if (count + piece.length > most) return lose(`an answer is longer than ${most} bytes`);
        if (count + piece.length > memory.length) memory = longer(memory, count + piece.length);
        memory.set(piece, count);
        count += piece.length;
      });
      response.on("error", (error) => lose(`the answer broke off: ${error.message}`));
      response.on("end", () => {
        if (!response.complete) return lose("the answer broke off");
        if (count < announced) return lose("the answer broke off");
        clearTimeout(timer);
        resolve({ status, headers, body: memory.subarray(0, count) });
      });
    });
    sent.end(request.body);
  });
}

/** Enlarges the memory of a response that did not announce its length. */
function longer(memory: Uint8Array, bytes: number): Uint8Array {
  const grown = new Uint8Array(Math.max(bytes, 2 * memory.length));
  grown.set(memory);
  return grown;
}
