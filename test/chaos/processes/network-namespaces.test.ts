// Hosts in separate network namespaces, as on separate machines: the same model, even if a link is
// cut in mid-run. Skipped without the right to create namespaces, or without a nats-server: the
// embedded broker listens on this machine only.

import type { JobOptions } from "../../../index.ts";
import { only, runJob, startTestCluster } from "../../helpers/clusters/clusters.ts";
import { startNatsServer } from "../../helpers/nats/nats.ts";
import { startNamespace } from "../../helpers/nats/network-namespaces.ts";
import { natsServer, networkNamespaces, testAll, testIf } from "../../helpers/needs.ts";
import { startHost, untilHosts } from "../../helpers/processes/host-processes.ts";

testIf(testAll, natsServer, networkNamespaces).serial(
  "hosts on separate networks train the same model, and a host that is cut off returns",
  async (t) => {
    await using one = await startTestCluster(4);
    const job = { data: { epochs: 2 } as JobOptions["data"] };
    const { result: calm } = await runJob(one, one.job(job));
    await using server = await startNatsServer(["-a", "0.0.0.0"]);
    const { port } = new URL(server.url);
    const nats = `nats://127.0.0.1:${port}`;
    await using place = await startTestCluster(0, { minDevices: 4, nats });
    const { cluster } = place;
    const networks = [startNamespace(t, 0), startNamespace(t, 1)] as const;
    for (const { gateway, inside } of networks) {
      await startHost(t, cluster, { nats: `nats://${gateway}:${port}`, inside });
    }
    const { result, events } = await runJob(place, place.job(job), (event) => {
      if (event.type === "run.checkpointed" && event.generation === 1) networks[1].cut();
    });
    t.is(result.digest, calm.digest);
    t.deepEqual(result.history, calm.history);
    t.deepEqual(
      only(events, "run.started").map(({ hosts }) => hosts.map(({ host }) => host)),
      [[1, 2], [1]],
    );
    t.regex(only(events, "run.incident")[0]?.error.message ?? "", /^Lost host:2: /);
    networks[1].mend();
    await untilHosts(cluster, [1, 2]);
  },
);
