// The configuration of a nats-server for one cluster: the permissions of each user. The cluster has
// an account of its own for its actors. Each tenant has an account, too, which sees only what the
// cluster exports to it.
//
//   account OSIRIS                                      account <tenant>
//     root · host · admin · metrics   ◀─ jobs.<tenant>.* ─   users
//                                     ─ runs.<tenant>.*.events ▶
//       stream of a tenant's events   ◀─ requests to read it ─
//
// The creator of a consumer chooses its delivery subject, and the server does not check the
// creator's permissions for it: through a consumer, a tenant could publish as the leader. So only
// the user `root` makes consumers, one for each user of a tenant. Others read a stream by message
// number, and request the next message of their consumer.
//
// A server's configuration is a superset of JSON: each block is written as JSON.

import { checkOptions } from "../../ports/check-options.ts";
import { eventStream, queueBucket } from "../messages/subjects.ts";
import { houseAccount, loginOf, type Tenants, type TenantUser, tenantName } from "./tenants.ts";

/** Users of the cluster's own account. */
export const houseUsers = ["root", "host", "admin", "metrics"] as const;

export interface NatsConfigOptions {
  readonly cluster: string;
  /** `host:port`. */
  readonly listen: string;
  readonly tenants: Tenants;
  /** Public key of the nkey of a tenant's user, or of the cluster's own user. */
  readonly keyOf: (user: string, tenant?: string) => string;
  /** PEM files. `verify`: clients must show a certificate that `ca` signed (mutual TLS). */
  readonly tls?:
    | {
        readonly cert: string;
        readonly key: string;
        readonly ca?: string | undefined;
        readonly verify: boolean;
      }
    | undefined;
  /** Directory of JetStream's store; left out: no JetStream. */
  readonly jetstream?: string | undefined;
  /** `host:port` of the server's own monitoring over HTTP; left out: no monitoring. */
  readonly monitor?: string | undefined;
}

/** For each connection of a tenant: one subscription for its inbox, one for each followed run. */
const subscriptionsMax = 1024;

/** Methods of the job service that only read. */
const readMethods = ["status", "list", "events", "logs", "schema"] as const;

/**
 * The configuration as text. It contains passwords only where `tenants` does.
 * @throws InvalidOptionError where the cluster's name is invalid or would be a wildcard
 */
export function natsConfig(options: NatsConfigOptions): string {
  const { listen, tls, jetstream, monitor } = options;
  const cluster = checkOptions(tenantName, options.cluster, "cluster");
  const blocks: (readonly [comment: string, key: string, value: unknown] | undefined)[] = [
    ["", "listen", listen],
    monitor === undefined ? undefined : ["Monitoring pages, over HTTP.", "http", monitor],
    tls === undefined ? undefined : ["All connections are encrypted.", "tls", tlsBlock(tls)],
    jetstream === undefined ? undefined : ["", "jetstream", { store_dir: jetstream }],
    ["Large enough for a frame of the exchange between hosts.", "max_payload", 1_048_576],
    ["Bytes queued for one client: frames of a step come in a burst.", "max_pending", 67_108_864],
    ["Interval of pings, by which lost clients are detected.", "ping_interval", "20s"],
    ["All users are listed below; there is no anonymous access.", "accounts", accountsOf(options)],
  ];
  const head = [
    `# nats-server for the cluster ${cluster} of Osiris, by \`osiris nats-config\`.`,
    "# Overwritten by each call: make changes in the tenants file instead.",
  ];
  const texts = blocks.flatMap((block) => {
    if (block === undefined) return [];
    const [comment, key, value] = block;
    const said = comment === "" ? [] : [`# ${comment}`];
    return [...said, `${key}: ${JSON.stringify(value, undefined, 2)}`];
  });
  return `${[...head, "", ...texts].join("\n")}\n`;
}

function tlsBlock({ cert, key, ca, verify }: NonNullable<NatsConfigOptions["tls"]>) {
  return { cert_file: cert, key_file: key, ...(ca === undefined ? {} : { ca_file: ca }), verify };
}

function accountsOf(options: NatsConfigOptions): Record<string, object> {
  const { cluster, tenants, jetstream } = options;
  const names = Object.keys(tenants);
  const house = {
    ...(jetstream === undefined ? {} : { jetstream: "enabled" }),
    users: houseUsers.map((name) => {
      return { nkey: options.keyOf(name), permissions: housePermissions(options)[name] };
    }),
    exports: names.flatMap((name) => [
      { service: jobsOf(cluster, name), accounts: [name] },
      { stream: eventsOf(cluster, name), accounts: [name] },
      ...(jetstream === undefined ? [] : streamServices(cluster, name)).map((service) => {
        return { service, response_type: "Stream", accounts: [name] };
      }),
    ]),
  };
  const own = names.map((name) => [name, tenantAccount(options, name)] as const);
  return { [houseAccount]: house, ...Object.fromEntries(own) };
}

/**
 * Permissions of the cluster's users. `root` publishes and receives all of the cluster's subjects,
 * and answers requests. `host` reaches only actors, through subjects of seven tokens: no jobs, no
 * events. `admin` uses the job service as the operator, and inspects the cluster.
 */
function housePermissions(options: NatsConfigOptions): Record<(typeof houseUsers)[number], object> {
  const { cluster } = options;
  const all = `osiris.${cluster}.>`;
  const actors = `osiris.${cluster}.*.*.*.*.*`;
  const events = [`osiris.${cluster}.runs.*.events`, `osiris.${cluster}.runs.*.*.events`];
  const inbox = "_INBOX.>";
  const discovery = "$SRV.>";
  const streams = ["$JS.>", "$KV.>"];
  const requests = [`osiris.${cluster}.jobs.>`, `osiris.${cluster}.inspect.>`];
  const copies = `osiris.${cluster}.*.*.copies.>`; // Hosts request replicas from hosts.
  return {
    root: permissions([all, inbox, "_R_.>", ...streams], [all, inbox, discovery, "$KV.>"]),
    host: permissions([actors, copies, inbox], [actors, copies, inbox]),
    admin: permissions([...requests, discovery, ...adminReads(options)], [...events, inbox]),
    metrics: permissions([], events),
  };
}

function tenantAccount(options: NatsConfigOptions, name: string): object {
  const { cluster, tenants, keyOf, jetstream } = options;
  const { users = {}, connectionsMax } = tenants[name] ?? {};
  return {
    users: Object.entries(users).map(([user, given]) => {
      const reads = jetstream === undefined ? [] : streamServices(cluster, name, user);
      const permitted = tenantPermissions(cluster, name, given, reads);
      if (given.pass !== undefined) {
        return { user: loginOf(name, user), password: given.pass, permissions: permitted };
      }
      const nkey = given.nkey ?? keyOf(user, name);
      return { nkey, permissions: permitted };
    }),
    limits: { max_connections: connectionsMax, max_subscriptions: subscriptionsMax },
    imports: [
      { service: { account: houseAccount, subject: jobsOf(cluster, name) } },
      { stream: { account: houseAccount, subject: eventsOf(cluster, name) } },
      ...(jetstream === undefined ? [] : streamServices(cluster, name)).map((subject) => {
        return { service: { account: houseAccount, subject } };
      }),
    ],
  };
}

function tenantPermissions(
  cluster: string,
  name: string,
  { may }: TenantUser,
  reads: readonly string[],
): object {
  const jobs = `osiris.${cluster}.jobs.${name}`;
  const requests =
    may === "read" ? readMethods.map((method) => `${jobs}.${method}`) : [`${jobs}.*`];
  return permissions([...requests, ...reads], [eventsOf(cluster, name), "_INBOX.>"]);
}

/**
 * The JetStream services that a tenant's account may request: a message by its number or the last
 * of a subject, a consumer's next message, and its acknowledgement. The rest of JetStream's API is
 * closed to other accounts.
 */
function streamServices(cluster: string, tenant: string, user = "*"): readonly string[] {
  const stream = eventStream(cluster, tenant);
  const own = `${stream}.${user}`;
  return [...directReads(stream), `$JS.API.CONSUMER.MSG.NEXT.${own}`, `$JS.ACK.${own}.>`];
}

function directReads(stream: string): readonly string[] {
  return [`$JS.API.DIRECT.GET.${stream}`, `$JS.API.DIRECT.GET.${stream}.>`];
}

/** An admin reads all streams and the queue. */
function adminReads({ cluster, tenants, jetstream }: NatsConfigOptions): readonly string[] {
  if (jetstream === undefined) return [];
  const streams = [undefined, ...Object.keys(tenants)].map((name) => eventStream(cluster, name));
  return [...streams, `KV_${queueBucket(cluster)}`].flatMap((stream) => {
    const more = ["STREAM.INFO", "STREAM.MSG.GET"].map((method) => `$JS.API.${method}.${stream}`);
    return [...directReads(stream), ...more];
  });
}

function permissions(publish: readonly string[], subscribe: readonly string[]): object {
  // An empty allow list would allow everything.
  const publishes = publish.length === 0 ? { deny: [">"] } : { allow: publish };
  return { publish: publishes, subscribe: { allow: subscribe } };
}

function jobsOf(cluster: string, tenant: string): string {
  return `osiris.${cluster}.jobs.${tenant}.*`;
}

function eventsOf(cluster: string, tenant: string): string {
  return `osiris.${cluster}.runs.${tenant}.*.events`;
}
