// The subjects of frames, and the wildcards that select them:
//
//   osiris.<cluster>.<run>.<generation>.<role>.<index>.<action>   to or from one actor of a run
//   osiris.<cluster>.jobs.<method>                                the job service
//   osiris.<cluster>.runs.<run>.events                          events of a run
//   osiris.<cluster>.inspect.<part>                             the state of a cluster
//   osiris.<cluster>.jobs.<tenant>.<method>                       the job service, for a tenant
//   osiris.<cluster>.runs.<tenant>.<run>.events                 events of a tenant's run
//   osiris.<cluster>.stream.<run>                               events, kept in JetStream
//   osiris.<cluster>.stream.<tenant>.<run>                      the same for a tenant's run
//   osiris.serve.<model>.<method>                               a served model, of no cluster
//
// The tenant is part of the subject, so that a broker can enforce with patterns what each tenant
// may publish and subscribe to.

import { expected } from "../../ports/check-options.ts";

/** The roles with subjects of their own: actors, and the other traffic of a bridge. */
export const roles = [
  "cluster",
  "jobs",
  "queue",
  "job",
  "coordinator",
  "checkpoint",
  "host",
  "hosts",
  "joining",
  "process",
  "device",
  "shard",
  "reader",
  "tier",
  "writer",
  "bridge",
  "inspector",
  "frames",
  "copies",
  "splits",
  "master",
  "pool",
  "sparse",
  "dense",
] as const;

export type SubjectRole = (typeof roles)[number];

/** One action of one actor: the parts of an actor's seven-token subject. */
export interface ActorSubject {
  readonly cluster: string;
  readonly run: string;
  readonly generation: number;
  readonly role: SubjectRole;
  readonly index: number;
  readonly action: string;
}

/**
 * Longest token: a subject of seven tokens stays far below a broker's control line of 4096 bytes.
 */
export const tokenCharactersMax = 128;

/** Longest subject of Osiris. The embedded broker carries longer ones, of other clients. */
export const subjectCharactersMax = 1024;

/** The subject of one action of one actor. @throws InvalidOptionError */
export function subjectOf(parts: ActorSubject): string {
  return subjectPattern(parts);
}

/** The pattern of all subjects with these parts; a part left out matches anything. */
export function subjectPattern(parts: Partial<ActorSubject>): string {
  return [
    "osiris",
    token("cluster", parts.cluster),
    token("run", parts.run),
    count("generation", parts.generation),
    token("role", parts.role),
    count("index", parts.index),
    token("action", parts.action),
  ].join(".");
}

/** The parts of an actor's subject; undefined for any other subject. */
export function parseSubject(subject: string): ActorSubject | undefined {
  const [root, cluster, run, generation, role, index, action, ...rest] = subject.split(".");
  if (root !== "osiris" || rest.length > 0) return undefined;
  if (!isToken(cluster) || !isToken(run) || !isRole(role) || !isToken(action)) return undefined;
  if (!isCount(generation) || !isCount(index)) return undefined;
  return { cluster, run, generation: Number(generation), role, index: Number(index), action };
}

/**
 * The subject of one method of the job service, for a tenant, or without one for the cluster's
 * operator.
 * @throws InvalidOptionError
 */
export function jobsSubject(cluster: string, method: string, tenant?: string): string {
  return `osiris.${token("cluster", cluster)}.jobs.${ofTenant(tenant)}${token("method", method)}`;
}

/** The pattern of one method for all tenants. @throws InvalidOptionError */
export function tenantsPattern(cluster: string, method: string): string {
  return `osiris.${token("cluster", cluster)}.jobs.*.${token("method", method)}`;
}

/** The tenant in a subject of the job service; undefined: the cluster's operator. */
export function tenantOf(subject: string): string | undefined {
  const tokens = subject.split(".");
  return tokens.length === 5 ? tokens[3] : undefined;
}

/** The subject of a run's events, with or without a tenant. @throws InvalidOptionError */
export function eventsSubject(cluster: string, run: string, tenant?: string): string {
  return `osiris.${token("cluster", cluster)}.runs.${ofTenant(tenant)}${token("run", run)}.events`;
}

/** The patterns of the events of all runs. @throws InvalidOptionError */
export function eventsPatterns(cluster: string): readonly string[] {
  const runs = `osiris.${token("cluster", cluster)}.runs`;
  return [`${runs}.*.events`, `${runs}.*.*.events`];
}

/** The subject of a run's events in JetStream. @throws InvalidOptionError */
export function streamSubject(cluster: string, run: string, tenant?: string): string {
  return `osiris.${token("cluster", cluster)}.stream.${ofTenant(tenant)}${token("run", run)}`;
}

/**
 * The pattern of a tenant's streamed events; without a tenant, of all runs that have none.
 * @throws InvalidOptionError
 */
export function streamPattern(cluster: string, tenant?: string): string {
  return `osiris.${token("cluster", cluster)}.stream.${ofTenant(tenant)}*`;
}

/**
 * JetStream's name for the stream of a tenant's events, or of runs without a tenant. Names of
 * clusters and tenants have no `@`, so no two streams share a name.
 */
export function eventStream(cluster: string, tenant?: string): string {
  return `osiris-events-${tenant === undefined ? "" : `${tenant}@`}${cluster}`;
}

/** JetStream's name of the bucket that mirrors the queue of a cluster. */
export function queueBucket(cluster: string): string {
  return `osiris-queue-${cluster}`;
}

/** The subject for questions about a part of a cluster's state. @throws InvalidOptionError */
export function inspectSubject(cluster: string, part: string): string {
  return `osiris.${token("cluster", cluster)}.inspect.${token("part", part)}`;
}

/** The subject of one method of a served model. @throws InvalidOptionError */
export function servingSubject(model: string, method: string): string {
  return `osiris.serve.${token("model", model)}.${token("method", method)}`;
}

/** Whether a frame can be sent to `subject`: no blanks, no wildcards, no empty token. */
export function isSubject(subject: string): boolean {
  return isPattern(subject) && !/(^|\.)[*>](\.|$)/.test(subject);
}

/**
 * Whether `subject` is an inbox, and so a valid reply subject. The service may publish more than a
 * client: on the cluster's or the server's own subjects, its answer would be a command.
 */
export function isInbox(subject: string): boolean {
  return isSubject(subject) && !/^(osiris\.|\$)/.test(subject);
}

/** Whether `pattern` can be subscribed to: a subject, with `*` tokens or a final `>`. */
export function isPattern(pattern: string): boolean {
  if (pattern.length === 0 || pattern.length > subjectCharactersMax) return false;
  if (hasBlank(pattern)) return false;
  const tokens = pattern.split(".");
  return tokens.every((one, at) => one !== "" && (one !== ">" || at === tokens.length - 1));
}

/** Whether `pattern` matches `subject`: `*` matches one token, a final `>` one or more. */
export function matches(pattern: string, subject: string): boolean {
  const wanted = pattern.split(".");
  const given = subject.split(".");
  for (const [at, one] of wanted.entries()) {
    if (at >= given.length) return false;
    if (one === ">" && at === wanted.length - 1) return true;
    if (one !== "*" && one !== given[at]) return false;
  }
  return wanted.length === given.length;
}

/** Whether there is a blank or an ASCII control character, which would end a token on the wire. */
function hasBlank(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code <= 0x20 || code === 0x7f) return true;
  }
  return false;
}

function isToken(value: string | undefined): value is string {
  if (value === undefined || value === "" || value.length > tokenCharactersMax) return false;
  return !/[.*>]/.test(value) && !hasBlank(value);
}

function isRole(value: string | undefined): value is SubjectRole {
  return roles.some((role) => role === value);
}

function isCount(value: string | undefined): value is string {
  return value !== undefined && /^(0|[1-9]\d{0,14})$/.test(value);
}

function token(part: string, value: string | undefined): string {
  if (value === undefined) return "*";
  if (isToken(value)) return value;
  const form = `1 to ${tokenCharactersMax} characters without blanks, \`.\`, \`*\` and \`>\``;
  throw expected(part, form, value);
}

function ofTenant(tenant: string | undefined): string {
  return tenant === undefined ? "" : `${token("tenant", tenant)}.`;
}

function count(part: string, value: number | undefined): string {
  if (value === undefined) return "*";
  if (isCount(String(value))) return String(value);
  throw expected(part, "an integer >= 0", value);
}
